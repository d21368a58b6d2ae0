package probe

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/test/pgtest"
)

// program finds a server that script/setup-tests installs.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		for _, dir := range []string{"/usr/sbin", "/usr/libexec", "/usr/local/sbin"} {
			if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Mode().IsRegular() {
				return filepath.Join(dir, name)
			}
		}
		t.Fatalf("%s is not installed: run script/setup-tests", name)
	}
	return path
}

// output is what a server says while others read it.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// server starts a server of the test's own and waits until it answers a probe. The returned function ends it; so does the test.
func server(t *testing.T, ready ops.ProbeSpec, path string, args ...string) (end func()) {
	t.Helper()
	var said output
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), path, args...)
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	end = sync.OnceFunc(func() { _ = cmd.Process.Kill(); <-ended })
	t.Cleanup(end)
	for deadline := time.Now().Add(time.Minute); run(t, ready).Status != ops.Healthy; {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("%s ended: %v\n%s", filepath.Base(path), err, said.String())
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not become ready: %s\n%s", filepath.Base(path), run(t, ready).Error, said.String())
		}
	}
	return end
}

func freePort(t *testing.T) string {
	t.Helper()
	_, port, err := net.SplitHostPort(closedPort(t))
	must(t, err)
	return port
}

// certificate writes a key and a certificate that nobody has signed.
func certificate(t *testing.T, dir string) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(time.Hour),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: cert}, keyFile: {Type: "PRIVATE KEY", Bytes: private}} {
		must(t, os.WriteFile(name, pem.EncodeToMemory(block), 0o600))
	}
	return certFile, keyFile
}

// looks runs probes of one type and compares what they find.
func looks(t *testing.T, kind string, cases []serverCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.spec.Type = kind
			if c.spec.Timeout == 0 {
				c.spec.Timeout = 20 * time.Second
			}
			got := run(t, c.spec)
			if (got.Status == ops.Healthy) != (c.problem == "") || !strings.HasPrefix(got.Error, c.problem) {
				t.Errorf("got %s %q, want %q", got.Status, got.Error, c.problem)
			}
			if strings.Contains(got.Error+got.Probe, "p@ss") || strings.Contains(got.Error+got.Probe, "p%40ss") {
				t.Errorf("the password is told: %+v", got)
			}
		})
	}
}

// lookCase is a question of an agent to a real server: what its answer holds, or else how it is refused.
type lookCase struct{ query, want, refused string }

// asks puts questions as the tool look does.
func asks(t *testing.T, what string, spec ops.ProbeSpec, cases []lookCase) {
	t.Helper()
	p := New(Options{})
	spec.Service = "it"
	for _, c := range cases {
		got, err := p.Look(t.Context(), []ops.ProbeSpec{spec}, Look{What: what, Target: "it", Query: c.query})
		if c.refused == "" && (err != nil || !strings.Contains(got, c.want)) || c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)) {
			t.Errorf("%q is answered %q, %v", c.query, got, err)
		}
		if err != nil && strings.Contains(err.Error(), "p@ss") || strings.Contains(got, "p@ss") {
			t.Errorf("%q tells the password: %q, %v", c.query, got, err)
		}
	}
}

type serverCase struct {
	name    string
	spec    ops.ProbeSpec
	problem string // how it begins
}

func TestARealRedisIsUnderstood(t *testing.T) {
	dir := t.TempDir()
	cert, key := certificate(t, dir)
	port, secure := freePort(t), freePort(t)
	plain, tls := "redis://127.0.0.1:"+port, "rediss://127.0.0.1:"+secure
	end := server(t, ops.ProbeSpec{Type: "redis", URL: plain, Password: "p@ss"}, program(t, "redis-server"),
		"--port", port, "--tls-port", secure, "--bind", "127.0.0.1", "--dir", dir, "--save", "", "--requirepass", "p@ss",
		"--tls-cert-file", cert, "--tls-key-file", key, "--tls-auth-clients", "no", "--user", "watch", "on", ">p@ss", "+ping", "+select")
	const password = "p@ss"
	looks(t, "redis", []serverCase{
		{"ping", ops.ProbeSpec{URL: plain, Password: password, Expect: []string{"PONG"}}, ""},
		{"password in the address", ops.ProbeSpec{URL: "redis://:p%40ss@127.0.0.1:" + port}, ""},
		{"number", ops.ProbeSpec{URL: plain, Password: password, Query: "DBSIZE", Expect: []string{"0"}}, ""},
		{"list", ops.ProbeSpec{URL: plain, Password: password, Query: "ROLE", Expect: []string{"master"}}, ""},
		{"text", ops.ProbeSpec{URL: plain, Password: password, Query: "ECHO well", Expect: []string{"well"}}, ""},
		{"other database", ops.ProbeSpec{URL: plain + "/3", Password: password}, ""},
		{"no value", ops.ProbeSpec{URL: plain, Password: password, Query: "GET none", Expect: []string{"x"}}, `the first value is "", not x`},
		{"no such database", ops.ProbeSpec{URL: plain + "/99", Password: password}, "SELECT: ERR DB index is out of range"},
		{"no such command", ops.ProbeSpec{URL: plain, Password: password, Query: "WELL"}, "WELL: ERR unknown command"},
		{"no password", ops.ProbeSpec{URL: plain}, "PING: NOAUTH Authentication required."},
		{"wrong password", ops.ProbeSpec{URL: plain, Password: "wrong word"}, "AUTH: WRONGPASS invalid username-password pair"},
		{"a user of its own", ops.ProbeSpec{URL: "redis://watch@127.0.0.1:" + port, Password: password}, ""},
		{"who may not ask", ops.ProbeSpec{URL: "redis://watch@127.0.0.1:" + port, Password: password, Query: "DBSIZE"}, "DBSIZE: NOPERM"},
		{
			"a query that takes too long",
			ops.ProbeSpec{URL: plain, Password: password, Query: "BLPOP none 0", Timeout: 200 * time.Millisecond},
			"no answer within 200ms",
		},
		{"tls", ops.ProbeSpec{URL: tls, Password: password, InsecureTLS: true}, ""},
		{"tls of a stranger", ops.ProbeSpec{URL: tls, Password: password}, "AUTH: "},
		{
			"tls where there is none",
			ops.ProbeSpec{URL: "rediss://127.0.0.1:" + port, Password: password, Timeout: 200 * time.Millisecond},
			"no answer within 200ms",
		},
		{"none where there is tls", ops.ProbeSpec{URL: "redis://127.0.0.1:" + secure, Password: password}, "AUTH: "},
	})
	asks(t, "redis", ops.ProbeSpec{Type: "redis", URL: plain, Password: password}, []lookCase{
		{"", "PONG", ""},
		{"PING", "PONG", ""},
		{"INFO", "redis_version:", ""},
		{"info replication", "role:master", ""},
		{"SET x 1", "", "only PING and INFO"},
		{"CONFIG GET requirepass", "", "only PING and INFO"},
		{"FLUSHALL", "", "only PING and INFO"},
		{"PING\r\nFLUSHALL x", "", "only PING and INFO"},
	})
	end()
	want(t, run(t, ops.ProbeSpec{Type: "redis", URL: plain, Password: password}), ops.Down, "connection refused")
}

// mariaDB makes a data folder as the server's own installer does, without the programs of its client.
func mariaDB(t *testing.T, path, dir string) {
	t.Helper()
	statements := []byte("CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket=NULL;\n")
	for _, name := range []string{"mysql_system_tables.sql", "mysql_system_tables_data.sql"} {
		text, err := os.ReadFile(filepath.Join("/usr/share/mysql", name))
		must(t, err)
		statements = append(statements, text...)
	}
	cmd := exec.CommandContext(t.Context(), path, "--no-defaults", "--user=root", "--datadir="+dir, "--bootstrap",
		"--innodb-log-file-size=4M", "--innodb-buffer-pool-size=8M", "--innodb-flush-log-at-trx-commit=0")
	cmd.Stdin = bytes.NewReader(statements)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func TestARealMariaDBIsUnderstood(t *testing.T) {
	dir := t.TempDir()
	data, first := filepath.Join(dir, "data"), filepath.Join(dir, "first.sql")
	must(t, os.Mkdir(data, 0o700))
	if err := os.WriteFile(first, []byte(`CREATE DATABASE shop;
CREATE TABLE shop.orders (n INT, note TEXT);
INSERT INTO shop.orders VALUES (42, 'paid');
CREATE USER watch@'127.0.0.1' IDENTIFIED BY 'p@ss';
GRANT SELECT ON shop.* TO watch@'127.0.0.1';
CREATE USER app@'127.0.0.1' IDENTIFIED BY 'p@ss';
GRANT ALL ON shop.* TO app@'127.0.0.1';
CREATE FUNCTION shop.spoil() RETURNS INT MODIFIES SQL DATA BEGIN DELETE FROM shop.orders; RETURN 1; END;
`), 0o600); err != nil {
		t.Fatal(err)
	}
	path := program(t, "mariadbd")
	mariaDB(t, path, data)
	cert, key := certificate(t, dir)
	port := freePort(t)
	base := "mysql://watch@127.0.0.1:" + port
	shop := base + "/shop"
	const password = "p@ss"
	end := server(
		t,
		ops.ProbeSpec{Type: "mysql", URL: shop, Password: password},
		path,
		"--no-defaults",
		"--user=root",
		"--datadir="+data,
		"--socket="+filepath.Join(
			dir,
			"s",
		),
		"--port="+port,
		"--bind-address=127.0.0.1",
		"--init-file="+first,
		"--innodb-log-file-size=4M",
		"--innodb-buffer-pool-size=8M",
		"--pid-file="+filepath.Join(dir, "pid"),
		"--skip-name-resolve",
		"--performance-schema=off",
		"--ssl-cert="+cert,
		"--ssl-key="+key,
	)
	looks(t, "mysql", []serverCase{
		{"connect", ops.ProbeSpec{URL: shop, Password: password}, ""},
		{"without a database", ops.ProbeSpec{URL: base, Password: password}, ""},
		{"password in the address", ops.ProbeSpec{URL: "mysql://watch:p%40ss@127.0.0.1:" + port + "/shop"}, ""},
		{"number", ops.ProbeSpec{URL: shop, Password: password, Query: "SELECT n, note FROM orders", Expect: []string{"42"}}, ""},
		{"text", ops.ProbeSpec{URL: shop, Password: password, Query: "SELECT note FROM orders", Expect: []string{"open", "paid"}}, ""},
		{
			"other value",
			ops.ProbeSpec{URL: shop, Password: password, Query: "SELECT COUNT(*) FROM orders", Expect: []string{"0"}},
			`the first value is "1", not 0`,
		},
		{"nothing", ops.ProbeSpec{URL: shop, Password: password, Query: "SELECT NULL", Expect: []string{"x"}}, `the first value is "", not x`},
		{
			"no rows",
			ops.ProbeSpec{URL: shop, Password: password, Query: "SELECT n FROM orders WHERE n < 0", Expect: []string{"x"}},
			`the first value is "", not x`,
		},
		{
			"wrong password",
			ops.ProbeSpec{URL: shop, Password: "wrong word"},
			"Access denied for user 'watch'@'127.0.0.1' (using password: YES) (1045)",
		},
		{"no password", ops.ProbeSpec{URL: shop}, "Access denied for user 'watch'@'127.0.0.1' (using password: NO) (1045)"},
		{
			"no such database",
			ops.ProbeSpec{URL: base + "/barn", Password: password},
			"Access denied for user 'watch'@'127.0.0.1' to database 'barn' (1044)",
		},
		{"no such table", ops.ProbeSpec{URL: shop, Password: password, Query: "SELECT 1 FROM none"}, "Table 'shop.none' doesn't exist (1146)"},
		{"no statement", ops.ProbeSpec{URL: shop, Password: password, Query: "SELEKT"}, "You have an error in your SQL syntax"},
		{
			"one statement only",
			ops.ProbeSpec{URL: shop, Password: password, Query: "SELECT 1; DELETE FROM orders"},
			"You have an error in your SQL syntax",
		},
		{
			"what it may not do",
			ops.ProbeSpec{URL: shop, Password: password, Query: "DELETE FROM orders"},
			"DELETE command denied to user 'watch'@'127.0.0.1'",
		},
		{
			"a query that takes too long",
			ops.ProbeSpec{URL: shop, Password: password, Query: "SELECT SLEEP(60)", Timeout: 300 * time.Millisecond},
			"no answer within 300ms",
		},
		{
			"tls",
			ops.ProbeSpec{
				URL:      shop + "?tls=skip-verify",
				Password: password,
				Query:    "SHOW STATUS LIKE 'Ssl_version'",
				Expect:   []string{"Ssl_version"},
			},
			"",
		},
		{
			"tls of a stranger",
			ops.ProbeSpec{URL: shop + "?tls=true", Password: password},
			"certificate: x509: certificate signed by unknown authority",
		},
	})
	asks(t, "sql", ops.ProbeSpec{Type: "mysql", URL: "mysql://app@127.0.0.1:" + port + "/shop", Password: password}, []lookCase{
		{"SELECT n, note FROM orders", "n\tnote\n42\tpaid\n", ""},
		{"explain select n from orders", "orders", ""},
		{"INSERT INTO orders VALUES (1, 'x')", "", "only SELECT"},
		{"DROP TABLE orders", "", "only SELECT"}, // MariaDB would end the transaction and do it
		{"/*! DROP TABLE orders */", "", "only SELECT"},
		{"SELECT spoil()", "", "READ ONLY transaction (1792)"},
		{"SELECT 1; DELETE FROM orders", "", "You have an error in your SQL syntax"},
		{"SELECT COUNT(*) FROM orders", "\n1\n", ""},
	})
	end()
	want(t, run(t, ops.ProbeSpec{Type: "mysql", URL: shop, Password: password}), ops.Down, "connection refused")
}

func TestARealPostgreSQLIsUnderstood(t *testing.T) {
	address := pgtest.URL(t)
	looks(t, "postgres", []serverCase{
		{"connect", ops.ProbeSpec{URL: address}, ""},
		{"number", ops.ProbeSpec{URL: address, Query: "SELECT 41 + 1, 'x'", Expect: []string{"42"}}, ""},
		{"truth", ops.ProbeSpec{URL: address, Query: "SELECT pg_is_in_recovery()", Expect: []string{"false", "f"}}, ""},
		{"text", ops.ProbeSpec{URL: address, Query: "SHOW server_encoding", Expect: []string{"UTF8"}}, ""},
		{"nothing", ops.ProbeSpec{URL: address, Query: "SELECT NULL::text", Expect: []string{"x"}}, `the first value is "", not x`},
		{"no such table", ops.ProbeSpec{URL: address, Query: "SELECT 1 FROM none"}, `relation "none" does not exist (42P01)`},
		{"no statement", ops.ProbeSpec{URL: address, Query: "SELEKT"}, `syntax error at or near "SELEKT" (42601)`},
		{
			"a query that takes too long",
			ops.ProbeSpec{URL: address, Query: "SELECT pg_sleep(60)", Timeout: 300 * time.Millisecond},
			"no answer within 300ms",
		},
		{
			"what it calls itself",
			ops.ProbeSpec{URL: address, Query: "SELECT current_setting('application_name')", Expect: []string{userAgent}},
			"",
		},
	})
	// A query that was given up does not go on at the server.
	for deadline := time.Now().Add(time.Minute); ; <-time.After(20 * time.Millisecond) {
		got := run(
			t,
			ops.ProbeSpec{
				Type:    "postgres",
				URL:     address,
				Query:   "SELECT COUNT(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%' AND state = 'active'",
				Expect:  []string{"0"},
				Timeout: 20 * time.Second,
			},
		)
		if got.Status == ops.Healthy {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("it still runs: %s", got.Error)
		}
	}
	unknown := strings.Replace(address, "/t", "/u", 1)
	if got := run(
		t,
		ops.ProbeSpec{Type: "postgres", URL: unknown, Timeout: 20 * time.Second},
	); got.Status != ops.Down ||
		!strings.HasSuffix(got.Error, "does not exist (3D000)") {
		t.Errorf("got %+v", got)
	}
}

// Whatever an agent asks, the server itself refuses to change anything.
func TestLookAtARealPostgreSQLChangesNothing(t *testing.T) {
	address := pgtest.URL(t)
	at, err := url.Parse(address)
	must(t, err)
	db, err := New(Options{}).databases["postgres"](t.Context(), at)
	must(t, err)
	defer func() { _ = db.Close() }()
	for _, statement := range []string{
		"CREATE TABLE orders (n int, note text)", "INSERT INTO orders VALUES (42, 'paid')", "CREATE SEQUENCE numbers",
		"CREATE FUNCTION wipe() RETURNS void LANGUAGE sql AS 'DELETE FROM orders'",
	} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	const readOnly = "in a read-only transaction (25006)"
	asks(t, "sql", ops.ProbeSpec{Type: "postgres", URL: address}, []lookCase{
		{"SELECT n, note FROM orders", "n\tnote\n42\tpaid\n", ""},
		{"SHOW transaction_read_only", "on", ""},
		{"WITH gone AS (DELETE FROM orders RETURNING n) SELECT n FROM gone", "", readOnly},
		{"EXPLAIN ANALYZE DELETE FROM orders", "", readOnly},
		{"SELECT n INTO copy FROM orders", "", readOnly},
		{"SELECT wipe()", "", readOnly},
		{"SELECT nextval('numbers')", "", readOnly},
		{"SELECT 1; DELETE FROM orders", "", "multiple commands"},
		{"SELECT 1; COMMIT; DELETE FROM orders", "", "multiple commands"},
		{"COMMIT", "", "only SELECT"},
		{"DELETE FROM orders", "", "only SELECT"},
		{"COPY orders TO PROGRAM 'id'", "", "only SELECT"},
		{"SELECT n FROM generate_series(1, 1000) n", "… more than 50 rows", ""},
		{"SELECT COUNT(*) FROM orders", "\n1\n", ""},
	})
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
