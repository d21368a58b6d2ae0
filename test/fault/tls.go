package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"claudeops/internal/ops"
)

// certificate is one that signs itself, for a server on loopback.
type certificate struct{ cert, key []byte }

func newCertificate(name string) (c certificate, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return c, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return c, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return c, err
	}
	encode := func(kind string, raw []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}) }
	return certificate{encode("CERTIFICATE", raw), encode("PRIVATE KEY", private)}, nil
}

// present lets the server show a certificate, to everybody who connects from now on, and ends all other connections. The server writes its
// files itself, because they have to be its own.
func (d *server) present(ctx context.Context, c certificate) error {
	put := func(name string, raw []byte) string {
		return fmt.Sprintf("COPY (SELECT '%s') TO PROGRAM 'umask 077; base64 -d >%s'", base64.StdEncoding.EncodeToString(raw), name)
	}
	for _, statement := range []string{
		put("server.crt", c.cert), put("server.key", c.key), "ALTER SYSTEM SET ssl = on", "SELECT pg_reload_conf()", "SELECT pg_sleep(0.5)",
		"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'journal'",
	} {
		if err := d.cluster.SQL(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// otherCertificate runs the chain on a PostgreSQL with TLS, lets the server show a certificate of somebody else in the middle of Tier 2, and
// then its own again. Nothing may be said to, or believed of, the wrong one.
func (t *trying) otherCertificate(ctx context.Context) (err error) {
	d, err := newServer(ctx)
	if err != nil {
		return err
	}
	right, err := newCertificate("right")
	if err != nil {
		return err
	}
	wrong, err := newCertificate("wrong")
	if err != nil {
		return err
	}
	if err := d.present(ctx, right); err != nil {
		return errors.Join(err, d.drop())
	}
	ca, err := os.CreateTemp("", "fault-ca-")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(ca.Name()) }()
	if _, err := ca.Write(right.cert); err != nil {
		return err
	}
	plain := d.url
	d.url = strings.Replace(plain, "sslmode=disable", "sslmode=verify-full&sslrootcert="+ca.Name(), 1)
	b, err := newBox(ctx, setup{program: t.program, ladder: true, scenario: slowChain(4 * time.Second), database: d})
	if err != nil {
		return err
	}
	defer func() { t.leave(b, err) }()
	p, err := b.inTier2Of(ctx)
	if err != nil {
		return err
	}
	defer p.signal(syscall.SIGKILL)
	before := len(b.service.done())
	if err := d.present(ctx, wrong); err != nil {
		return err
	}
	shown := time.Now()
	if err := p.within(lease+busyTime, "the agents are gone", func() bool { return len(b.agents(ops.Tier2)) == 0 }); err != nil {
		return err
	}
	gone := time.Since(shown)
	if code, body := p.submit("{}"); code != http.StatusServiceUnavailable {
		return fmt.Errorf("submitting answers %d: %.300s", code, body)
	}
	for time.Since(shown) < 30*time.Second {
		<-time.After(100 * time.Millisecond)
		if done := b.service.done(); len(done) > before {
			return fmt.Errorf("%s was done although nothing could be reserved", done[before].verb)
		}
	}
	// One that starts now does not believe it either.
	other, err := b.start(ctx, modeOnce, "CLAUDEOPS_STATE_DIR="+b.file("other"), "CLAUDEOPS_HOST=other")
	if err != nil {
		return err
	}
	if err := other.wait(); err != nil {
		return err
	}
	if other.code() == 0 || !strings.Contains(other.out.String(), "certificate") {
		return fmt.Errorf("a start with the wrong certificate exits %d:\n%s", other.code(), other.out.tail())
	}
	if err := d.present(ctx, right); err != nil {
		return err
	}
	return t.goesOn(ctx, b, p, fmt.Sprintf("the agents were gone %s after the server showed another certificate, and nobody connected for 30 s", gone.Round(10*time.Millisecond)))
}
