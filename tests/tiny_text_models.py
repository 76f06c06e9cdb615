"""Tiny text and CLIP models with random weights, made from configurations alone; nothing is downloaded.

    folder = make_bert(tmp_path)               # for BERTScore: BertModel
    folder = make_sentence_model(tmp_path)     # a SentenceTransformer
    name = make_clip(tmp_path)                 # "local-dir:FOLDER" of an open_clip model

Their tokenizers have one token per letter.
"""

from __future__ import annotations

import json

__all__ = ["make_bert", "make_clip", "make_sentence_model"]

_POSITIONS = 64
_SIZES = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "max_position_embeddings": _POSITIONS,
}


def _bert_tokenizer():
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    letters = "abcdefghijklmnopqrstuvwxyz0123456789.,!?'()-"
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokens += letters
    tokens += [f"##{letter}" for letter in letters]
    vocabulary = {token: i for i, token in enumerate(tokens)}
    core = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    core.normalizer = normalizers.BertNormalizer(lowercase=True)
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    core.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(token, vocabulary[token]) for token in ("[CLS]", "[SEP]")],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        unk_token="[UNK]",
        sep_token="[SEP]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        mask_token="[MASK]",
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )


def _spread(network, seed):
    """Gives the weights larger values than at the start of a training, so that texts move the output visibly."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.dim() > 1:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)


# As in the real checkpoints: positions are relative, and there are no segments.
_DEBERTA = {
    "relative_attention": True,
    "position_biased_input": False,
    "pos_att_type": ["p2c", "c2p"],
    "type_vocab_size": 0,
}


def make_bert(parent, *, family="bert", seed=0):
    """Writes a BertModel or a DebertaModel with its tokenizer and returns the folder."""
    from transformers import BertConfig, BertModel, DebertaConfig, DebertaModel

    folder = parent / f"tiny-{family}-{seed}"
    tokenizer = _bert_tokenizer()
    if family == "bert":
        network = BertModel(BertConfig(vocab_size=len(tokenizer), **_SIZES))
    else:
        network = DebertaModel(DebertaConfig(vocab_size=len(tokenizer), **_SIZES, **_DEBERTA))
    _spread(network, seed)
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def make_sentence_model(parent, *, seed=0):
    """Writes a SentenceTransformer (mean of the tokens) over a tiny BERT and returns the folder."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Pooling, Transformer

    bert = make_bert(parent, seed=seed)
    transformer = Transformer(str(bert), max_seq_length=48)
    folder = parent / f"tiny-sentence-{seed}"
    modules = [transformer, Pooling(_SIZES["hidden_size"])]
    model = SentenceTransformer(modules=modules, device="cpu")
    model.save(str(folder))
    return folder


def make_clip(parent, *, seed=0, context_length=24):
    """Writes an open_clip model and returns its specification, "local-dir:FOLDER"."""
    import open_clip
    import torch

    folder = parent / f"tiny-clip-{seed}"
    folder.mkdir(parents=True)
    vision = {"image_size": 32, "layers": 1, "width": 32, "head_width": 16, "patch_size": 16}
    text = {"vocab_size": 49408, "width": 16, "heads": 2, "layers": 1}
    text["context_length"] = context_length
    config = {
        "model_cfg": {"embed_dim": 16, "vision_cfg": vision, "text_cfg": text},
        "preprocess_cfg": {"mean": [0.5, 0.5, 0.5], "std": [0.25, 0.25, 0.25]},
    }
    (folder / "open_clip_config.json").write_text(json.dumps(config), encoding="utf-8")
    torch.manual_seed(seed)
    model = open_clip.CLIP(16, vision, text)
    torch.save(model.state_dict(), folder / "open_clip_model.bin")
    return f"local-dir:{folder}"
