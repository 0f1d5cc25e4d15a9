# singa-ws in a container, for Docker and Podman:
#
#   docker build -t singa-ws .
#   docker run --rm -v "$PWD/data:/data:ro" -v singa-state:/state singa-ws run recipes/digits.ini
#   docker run --rm -it -v singa-state:/state singa-ws top
#
# The working directory /usr/share/singa-ws has the recipes. Recipes read $SINGA_DATA, which is /data;
# history and checkpoints are below /state, which must be writable for user 1000.
#
# With the CUDA device, on a machine with NVIDIA's container toolkit:
#
#   docker build -t singa-ws:cuda --build-arg CUDA=ON \
#       --build-arg BUILD_IMAGE=nvidia/cuda:13.0.2-cudnn-devel-ubuntu24.04 \
#       --build-arg IMAGE=nvidia/cuda:13.0.2-cudnn-runtime-ubuntu24.04 .
#   docker run --rm --gpus all -v "$PWD/data:/data:ro" -v singa-state:/state singa-ws:cuda run ...
ARG BUILD_IMAGE=debian:12
ARG IMAGE=debian:12

FROM ${BUILD_IMAGE} AS build
ARG CUDA=OFF
ARG CUDA_ARCH=all
ENV DEBIAN_FRONTEND=noninteractive
COPY . /src
WORKDIR /src
RUN apt-get -q update && apt-get -q -y install --no-install-recommends dpkg-dev file
RUN ./bootstrap deps
RUN SINGA_CUDA="$CUDA" SINGA_CUDA_ARCH="$CUDA_ARCH" ./bootstrap build
RUN cd build/release && cpack -B /packages

FROM ${IMAGE}
ENV DEBIAN_FRONTEND=noninteractive
COPY --from=build /packages/*.deb /packages/
RUN rm -f /packages/libsinga-dev_*.deb && apt-get -q update && apt-get -q -y install --no-install-recommends /packages/*.deb && rm -rf /packages /var/lib/apt/lists/*
RUN (id 1000 >/dev/null 2>&1 || useradd --uid 1000 --create-home singa) && mkdir -p /data /state && chown 1000 /state
USER 1000
ENV SINGA_DATA=/data XDG_STATE_HOME=/state
VOLUME /state
WORKDIR /usr/share/singa-ws
ENTRYPOINT ["singa-ws"]
CMD ["--help"]
