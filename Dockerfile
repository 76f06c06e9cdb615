# A CPU image of taxtune:
#   docker build -t taxtune .
#   docker run --rm -v "$PWD":/data taxtune tune dishes.yaml
# For a GPU, start from an image with CUDA and run with --gpus all. This file has not been built where it was written,
# for lack of a Docker daemon; installing the package with its prompts and recipes was tried with Python 3.12.
FROM python:3.12-slim

# WordNet, from which `taxtune init` makes a tree of labels.
RUN apt-get update && apt-get install --yes --no-install-recommends wordnet-base && rm -rf /var/lib/apt/lists/*

WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY taxtune taxtune
COPY prompts prompts
COPY recipes recipes
RUN pip install --no-cache-dir . && rm -rf /src

# Runs, caches and models belong in the mounted folder, owned by whoever runs the container.
ENV HF_HOME=/data/.cache/huggingface XDG_CACHE_HOME=/data/.cache
WORKDIR /data
ENTRYPOINT ["taxtune"]
CMD ["--help"]
