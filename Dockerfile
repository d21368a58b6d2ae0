# Two images. slim: probes, pages and API, for hosts that start no agents. full, the default: also agents, with Claude Code.
#   docker build -t claudeops .                        full
#   docker build -t claudeops:slim --target slim .
# docs/containers.md has the details. Where no registry can be reached, BASE, GO and NODE name images that you made, and PROGRAM and
# CLAUDE_CODE name built programs in the build context.
ARG BASE=debian:trixie-slim
ARG GO=golang:1.26
ARG NODE=node:22-slim

# This stage only copies, or compiles for this machine: it runs here for whatever platform the image is.
FROM --platform=${BUILDPLATFORM:-linux/amd64} ${GO} AS build
WORKDIR /src
COPY go.mod go.sum Makefile embed.go compose.yaml ./
COPY cmd cmd
COPY internal internal
COPY packaging packaging
COPY prompts prompts
ARG PROGRAM=""
COPY ${PROGRAM:-go.mod} /program/
ARG VERSION=dev
# Empty for this machine's own.
ARG TARGETARCH
RUN if [ ! -x /program/claudeops ]; then GOARCH="$TARGETARCH" make build VERSION="$VERSION" BIN=/program/claudeops; fi \
 && mkdir -p /out/usr/bin /out/etc/claudeops /out/etc/ssl/certs /out/var/lib/claudeops /out/tmp \
 && cp /program/claudeops /out/usr/bin/claudeops \
 && cp /etc/ssl/certs/ca-certificates.crt /out/etc/ssl/certs/ \
 && chmod 1777 /out/tmp && chown -R 65532:65532 /out/var/lib/claudeops && chmod 700 /out/var/lib/claudeops

FROM scratch AS slim
COPY --from=build /out/ /
USER 65532:65532
WORKDIR /etc/claudeops
ENV PATH=/usr/bin HOME=/var/lib/claudeops CLAUDEOPS_STATE_DIR=/var/lib/claudeops CLAUDEOPS_LISTEN=0.0.0.0:8080
VOLUME /var/lib/claudeops
EXPOSE 8080
HEALTHCHECK --interval=5s --timeout=6s --start-period=30s CMD ["claudeops", "healthcheck"]
ENTRYPOINT ["claudeops"]
CMD ["serve"]

# The native program of Claude Code. npm only downloads and checks it.
FROM ${NODE} AS claude
ARG CLAUDE_CODE_VERSION=2.1.328
ARG CLAUDE_CODE=""
COPY ${CLAUDE_CODE:-LICENSE} /claude/
RUN if [ ! -x /claude/claude ]; then \
      npm install --prefix /npm --ignore-scripts --no-save --no-audit --no-fund "@anthropic-ai/claude-code@$CLAUDE_CODE_VERSION" \
      && mv /npm/node_modules/@anthropic-ai/claude-code-linux-*/claude /claude/claude; \
    fi \
 && HOME=/tmp DISABLE_AUTOUPDATER=1 /claude/claude --version | grep -q "^$CLAUDE_CODE_VERSION "

FROM ${BASE} AS full
ARG PACKAGES="apprise bubblewrap ca-certificates curl docker-cli docker-compose git procps"
RUN if ! dpkg -s $PACKAGES >/dev/null 2>&1; then \
      apt-get update && apt-get install -y --no-install-recommends $PACKAGES && rm -rf /var/lib/apt/lists/*; \
    fi \
 && useradd --system --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin claudeops-agent
COPY --from=claude /claude/claude /usr/local/bin/claude
COPY --from=build /out/usr/bin/claudeops /usr/bin/claudeops
RUN mkdir -p /etc/claudeops && mkdir -m 711 /var/lib/claudeops
WORKDIR /etc/claudeops
ENV HOME=/var/lib/claudeops CLAUDEOPS_STATE_DIR=/var/lib/claudeops CLAUDEOPS_LISTEN=0.0.0.0:8080 DISABLE_AUTOUPDATER=1
VOLUME /var/lib/claudeops
EXPOSE 8080
HEALTHCHECK --interval=5s --timeout=6s --start-period=30s CMD ["claudeops", "healthcheck"]
ENTRYPOINT ["claudeops"]
CMD ["serve"]
