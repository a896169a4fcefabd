# A static binary in an empty image. The browser driver needs Chromium beside it; without one, use `sessions.driver: http`.
ARG GO_IMAGE=golang:1.26
FROM ${GO_IMAGE} AS build
WORKDIR /src
COPY go.mod go.sum ./
COPY pkg/view/chroma/standins pkg/view/chroma/standins
RUN go mod download
COPY . .
ARG VERSION=dev
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /out/amnesia ./cmd/amnesia \
 && mkdir -p /out/var/lib/amnesia /out/tmp

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/amnesia /usr/bin/amnesia
COPY --from=build --chown=65532:65532 /out/var/lib/amnesia /var/lib/amnesia
COPY --from=build --chown=65532:65532 /out/tmp /tmp
USER 65532:65532
WORKDIR /var/lib/amnesia
VOLUME /var/lib/amnesia
EXPOSE 9464
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s CMD ["/usr/bin/amnesia", "healthcheck"]
ENTRYPOINT ["/usr/bin/amnesia"]
CMD ["run", "-c", "/etc/amnesia/amnesia.yaml"]
