"""What made the embedded field guide: drawing birds, and training the tiny model that names them.

Not part of the package: `taxtune.fieldguide` holds what came out. In a checkout of the repository
`python -m fieldguide.draw` draws other data sets, `fieldguide.train` trains a model,
`fieldguide.measure` measures one.
"""
