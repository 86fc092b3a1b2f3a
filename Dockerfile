# docker build -t joiner .
FROM docker.io/library/rust:1.95-bookworm AS build
# aws-lc-rs compiles its own cryptography.
RUN apt-get update && apt-get install --yes --no-install-recommends cmake && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cargo build --locked --release --package joiner && cp target/release/joiner /joiner

# No shell, no package manager: glibc, certificates, and the binary under its two names.
FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /joiner /usr/local/bin/joiner
COPY --from=build /joiner /controller
# One arena for all threads: a few MiB less, and nobody waits for memory here.
ENV MALLOC_ARENA_MAX=1
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/joiner"]
CMD ["run"]
