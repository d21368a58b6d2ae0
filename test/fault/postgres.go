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
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/pgtest"
	"claudeops/test/storetest"
)

// server is a database on a PostgreSQL of the box's own.
type server struct {
	cluster *pgtest.Cluster
	url     string
}

func newServer(ctx context.Context) (*server, error) {
	c, err := pgtest.Start(ctx, pgtest.Durable)
	if err != nil {
		return nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	if err := c.SQL(ctx, "CREATE DATABASE journal"); err != nil {
		return nil, err
	}
	return &server{c, c.Address("journal")}, nil
}

func (d *server) environ() []string { return []string{"CLAUDEOPS_DATABASE_URL=" + d.url} }

func (d *server) open(ctx context.Context) (*store.Store, error) {
	return store.OpenReadOnly(ctx, storetest.With(store.Options{URL: d.url, Clock: time.Now, Logger: slog.New(slog.DiscardHandler)}))
}

func (d *server) check(ctx context.Context) error {
	s, err := d.open(ctx)
	if err != nil {
		return err
	}
	return s.Close()
}

func (d *server) drop() error { return d.cluster.Close() }

// lease is the default one: within it everything of a host that cannot reach its database must be gone.
const lease = 12 * time.Second

// nothingDone looks for so long whether more is done to the service.
func (b *box) nothingDone(before int, length time.Duration) error {
	for begun := time.Now(); time.Since(begun) < length; <-time.After(100 * time.Millisecond) {
		if done := b.service.done(); len(done) > before {
			return fmt.Errorf("%s was done although it could not be approved, reserved or recorded", done[before].verb)
		}
	}
	return nil
}

// halfDead lets every connection to the database take what is sent and answer nothing, in the middle of Tier 2. No error tells of it.
func (t *trying) halfDead(ctx context.Context, length time.Duration) error {
	d := must(newServer(ctx))
	proxy := must(pgtest.NewProxy(ctx, d.url, 0))
	t.ends = append(t.ends, func(bool) { _ = proxy.Close() })
	b := t.box(ctx, setup{
		ladder: true, scenario: slowChain(3 * time.Second), database: d, env: []string{"CLAUDEOPS_DATABASE_URL=" + proxy.Address(d.url)},
	})
	p := t.inTier2Of(ctx, b)
	proxy.Deafen(true)
	dead, before := time.Now(), len(b.service.done())
	check(p.within(lease+busyTime, "the agents are gone", func() bool { return len(b.agents(ops.Tier2)) == 0 }))
	gone := time.Since(dead)
	if code, body := p.submit("{}"); code != http.StatusServiceUnavailable {
		return fmt.Errorf("submitting answers %d: %.300s", code, body)
	}
	refused := time.Since(dead) - gone
	check(b.nothingDone(before, length-time.Since(dead)))
	proxy.Deafen(false)
	return t.goesOn(ctx, b, p, fmt.Sprintf("the agents were gone after %s, a request got 503 after %s", gone.Round(10*time.Millisecond), refused.Round(10*time.Millisecond)))
}

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

// database is where the journal of a box is kept.
type database interface {
	// environ is what the program under trial is told of it.
	environ() []string
	// open opens it for reading, beside a running program.
	open(ctx context.Context) (*store.Store, error)
	// check reads all of it and reports damage.
	check(ctx context.Context) error
	// drop removes what is kept outside the folder of the box.
	drop() error
}

// sqliteFile is a database in the state folder.
type sqliteFile struct{ state string }

func (d sqliteFile) path() string { return filepath.Join(d.state, "claudeops.db") }

func (sqliteFile) environ() []string { return nil }

func (d sqliteFile) open(ctx context.Context) (*store.Store, error) {
	return store.OpenReadOnly(ctx, storetest.With(store.Options{Path: d.path(), Clock: time.Now, Logger: slog.New(slog.DiscardHandler)}))
}

func (d sqliteFile) check(ctx context.Context) (err error) {
	s, err := d.open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }() // it was read only
	if err := s.QuickCheck(ctx); err != nil {
		return fmt.Errorf("check database: %w", err)
	}
	return nil
}

func (sqliteFile) drop() error { return nil }
