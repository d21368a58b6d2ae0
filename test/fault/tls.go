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
func (t *trying) otherCertificate(ctx context.Context) error {
	d := must(newServer(ctx))
	right := must(newCertificate("right"))
	wrong := must(newCertificate("wrong"))
	if err := d.present(ctx, right); err != nil {
		return errors.Join(err, d.drop())
	}
	ca := must(os.CreateTemp("", "fault-ca-"))
	defer func() { _ = os.Remove(ca.Name()) }()
	if _, err := ca.Write(right.cert); err != nil {
		return err
	}
	plain := d.url
	d.url = strings.Replace(plain, "sslmode=disable", "sslmode=verify-full&sslrootcert="+ca.Name(), 1)
	b := t.box(ctx, setup{ladder: true, scenario: slowChain(4 * time.Second), database: d})
	p := t.inTier2Of(ctx, b)
	before := len(b.service.done())
	check(d.present(ctx, wrong))
	shown := time.Now()
	check(p.within(lease+busyTime, "the agents are gone", func() bool { return len(b.agents(ops.Tier2)) == 0 }))
	gone := time.Since(shown)
	if code, body := p.submit("{}"); code != http.StatusServiceUnavailable {
		return fmt.Errorf("submitting answers %d: %.300s", code, body)
	}
	check(b.nothingDone(before, 30*time.Second-time.Since(shown)))
	// One that starts now does not believe it either.
	other := t.start(ctx, b, modeOnce, "CLAUDEOPS_STATE_DIR="+b.file("other"), "CLAUDEOPS_HOST=other")
	check(other.wait())
	if other.code() == 0 || !strings.Contains(other.out.String(), "certificate") {
		return fmt.Errorf("a start with the wrong certificate exits %d:\n%s", other.code(), other.out.tail())
	}
	check(d.present(ctx, right))
	return t.goesOn(ctx, b, p, fmt.Sprintf("the agents were gone %s after the server showed another certificate, and nobody connected for 30 s", gone.Round(10*time.Millisecond)))
}
