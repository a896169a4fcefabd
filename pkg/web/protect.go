package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"syscall"

	toolkit "github.com/prometheus/exporter-toolkit/web"
	"go.uber.org/zap"
	"go.uber.org/zap/zapio"
	"go.yaml.in/yaml/v2"
)

// Listen opens the address, host:port, so that an address that cannot be had ends the start and not the run. A server
// with an API is refused an address off loopback, unless there is TLS.
func (s *Server) Listen(ctx context.Context, address string) (net.Listener, error) {
	secure, users, err := protection(s.cfg.File)
	if err != nil {
		return nil, fmt.Errorf("reading web.config_file %s: %w — fix: see exporter-toolkit's web configuration", s.cfg.File, err)
	}
	l, err := listen(ctx, address)
	if err != nil {
		return nil, err
	}
	at, ok := l.Addr().(*net.TCPAddr)
	local := ok && at.IP.IsLoopback()
	if s.cfg.Daemon != nil && !local && !secure {
		l.Close()
		return nil, fmt.Errorf("listening on %s: the API and the pages would be readable on the way to whoever asks — fix: "+
			"set web.listen to 127.0.0.1:9464, and for Prometheus web.metrics to this address; or give web.config_file a certificate", address)
	}
	s.openToRead, s.knowsUsers = local || users, users
	return l, nil
}

func listen(ctx context.Context, address string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	switch {
	case err == nil:
		return l, nil
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("listening on %s: another program has the port (%w) — fix: end it, or set web.listen to another port", address, err)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("listening on %s: not allowed (%w) — fix: set web.listen to a port above 1023", address, err)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("listening on %s: this machine has no such address (%w) — fix: set web.listen to 127.0.0.1:9464", address, err)
	}
	return nil, fmt.Errorf("listening on %s: %w — fix: set web.listen to an address of this machine, such as 127.0.0.1:9464", address, err)
}

// protection says what a web.config_file asks of whoever comes: TLS, and a user's password.
func protection(file string) (secure, users bool, err error) {
	if file == "" {
		return false, false, nil
	}
	if err := toolkit.Validate(file); err != nil {
		return false, false, err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return false, false, err
	}
	var c toolkit.Config
	err = yaml.UnmarshalStrict(text, &c)
	return c.TLSConfig.IsEnabled(), len(c.Users) > 0, err
}

// serve lets exporter-toolkit put TLS and basic auth before the server, as web.config_file says.
func (s *Server) serve(srv *http.Server, l net.Listener) error {
	warnings := &zapio.Writer{Log: s.log, Level: zap.WarnLevel}
	defer warnings.Close()
	return toolkit.Serve(l, srv, &toolkit.FlagConfig{WebConfigFile: &s.cfg.File},
		slog.New(slog.NewTextHandler(warnings, &slog.HandlerOptions{Level: slog.LevelWarn})))
}

// ours refuses what a page of another site may have made a browser send: with the name of another host, which a name
// server can make point here (DNS rebinding), or from another origin.
func ours(next http.Handler) http.Handler {
	cross := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil && !plainHost(r.Host) { // under TLS the certificate is the name
			answer(w, http.StatusMisdirectedRequest, problem{Error: fmt.Sprintf(
				"this is not asked for by the name %q, which may be another's — fix: use localhost, or the address as a number", r.Host)})
			return
		}
		if err := cross.Check(r); err != nil {
			answer(w, http.StatusForbidden, problem{Error: fmt.Sprintf("%v: a page of another site may not act here — fix: use the command line", err)})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// plainHost reports whether a Host is one that no name server decides about.
func plainHost(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil || strings.EqualFold(host, "localhost")
}
