package web

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap/zaptest"
	"golang.org/x/crypto/bcrypt"
)

// certified writes a certificate for 127.0.0.1, and a web configuration with it, and with the password of a user ann
// where there is one.
func certified(t *testing.T, password string) (file string, roots *x509.CertPool) {
	t.Helper()
	dir := t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	text := "tls_server_config: {cert_file: cert.pem, key_file: key.pem}\n"
	if password != "" {
		hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
		if err != nil {
			t.Fatal(err)
		}
		text += fmt.Sprintf("basic_auth_users: {ann: %q}\n", hash)
	}
	for name, content := range map[string][]byte{
		"cert.pem": cert, "key.pem": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), "web.yaml": []byte(text),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	roots = x509.NewCertPool()
	roots.AppendCertsFromPEM(cert)
	return filepath.Join(dir, "web.yaml"), roots
}

// TestOffLoopback: in plain, only figures and health may be had from other machines.
func TestOffLoopback(t *testing.T) {
	file, _ := certified(t, "")
	users, _ := certified(t, "sesame")
	plain := filepath.Join(t.TempDir(), "plain.yaml")
	if err := os.WriteFile(plain, []byte("http_server_config: {http2: false}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		address, file string
		api           bool
		refused       string
		open          bool
	}{
		{"127.0.0.1:0", "", true, "", true},
		{"localhost:0", "", true, "", true},
		{"0.0.0.0:0", "", false, "", false},
		{"0.0.0.0:0", "", true, "fix: set web.listen to 127.0.0.1:9464, and for Prometheus web.metrics to this address; or give", false},
		{":0", plain, true, "or give web.config_file a certificate", false},
		{"0.0.0.0:0", file, true, "", false},
		{"0.0.0.0:0", users, true, "", true},
		{"127.0.0.1:0", filepath.Join(t.TempDir(), "none.yaml"), true, "reading web.config_file ", false},
	} {
		cfg := Config{Gatherer: prometheus.NewRegistry(), File: c.file}
		if c.api {
			cfg.Daemon = &daemon{}
		}
		s := New(cfg)
		l, err := s.Listen(t.Context(), c.address)
		if (err != nil) != (c.refused != "") || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%+v: %v", c, err)
		}
		if err == nil {
			l.Close()
			if s.openToRead != c.open {
				t.Errorf("%+v: open to read: %v", c, s.openToRead)
			}
		}
	}
}

// TestTLSAndBasicAuth goes through the whole server, as a client of another machine does.
func TestTLSAndBasicAuth(t *testing.T) {
	file, roots := certified(t, "sesame")
	s := New(Config{Gatherer: prometheus.NewRegistry(), Logger: zaptest.NewLogger(t), Daemon: &daemon{}, Token: token, File: file})
	l, err := s.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, l) }()
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	get := func(scheme, user, password string) int {
		req, err := http.NewRequest("GET", scheme+"://"+l.Addr().String()+"/api/v1/status", nil)
		if err != nil {
			t.Fatal(err)
		}
		if user != "" {
			req.SetBasicAuth(user, password)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.StatusCode
	}
	for _, c := range []struct {
		scheme, user, password string
		want                   int
	}{
		{"https", "ann", "sesame", 200}, {"https", "", "", 401}, {"https", "ann", "wrong", 401}, {"https", "bob", "sesame", 401}, {"http", "ann", "sesame", 400},
	} {
		if got := get(c.scheme, c.user, c.password); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
	client.CloseIdleConnections()
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
