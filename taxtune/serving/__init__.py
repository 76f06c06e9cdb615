"""A saved classifier behind HTTP: as a model of MLflow's, and with a page for the browser.

- `pyfunc.py`: the model as MLflow loads it, and how it is written to a folder;
- `images.py`: what a request says of an image: a file, an address or the content itself;
- `app.py`: MLflow's scoring server with the page `page.html.j2`.
"""
