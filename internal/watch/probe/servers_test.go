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
	"claudeops/test/loopback"
	"claudeops/test/needs"
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
		needs.End(t, needs.Absent(name))
	}
	return path
}

// server starts a server of the test's own and waits until it answers a probe. The returned function ends it; so does the test.
func server(t *testing.T, ready ops.ProbeSpec, path string, args ...string) (end func()) {
	t.Helper()
	var said loopback.Output
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

// queryCase is a query of an operator and the values of an agent: what its answer holds, or else how it is refused.
type queryCase struct {
	run           []string
	params        string // "id=integer n=text"
	given         map[string]string
	want, refused string
}

// asks puts queries as the tool look does.
func asks(t *testing.T, spec ops.ProbeSpec, cases []queryCase) {
	t.Helper()
	p := New(Options{})
	spec.Service = "it"
	for _, c := range cases {
		q := ops.Query{Name: "q", Run: c.run, Params: map[string]string{}}
		for _, param := range strings.Fields(c.params) {
			name, kind, _ := strings.Cut(param, "=")
			q.Params[name] = kind
		}
		env := ops.Environment{Probes: []ops.ProbeSpec{spec}}
		env.Policy.Inventory.Services = []ops.Service{{Name: "it", Aliases: []string{"alias"}, Queries: []ops.Query{q}}}
		got, err := p.Look(t.Context(), env, Look{What: "query", Target: "alias", Query: "q", Params: c.given})
		if c.refused == "" && (err != nil || !strings.Contains(got, c.want)) || c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)) {
			t.Errorf("%q with %q is answered %q, %v", c.run, c.given, got, err)
		}
		if err != nil && strings.Contains(err.Error(), "p@ss") || strings.Contains(got, "p@ss") {
			t.Errorf("%q tells the password: %q, %v", c.run, got, err)
		}
	}
}

// statement is what a query with one SQL statement runs.
func statement(text string) []string { return []string{text} }

type give = map[string]string

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
	redis := ops.ProbeSpec{Type: "redis", URL: plain, Password: password}
	for _, query := range []string{"SET k v", "RPUSH list one two three", "HSET hash field value"} {
		redis.Query = query
		want(t, run(t, redis), ops.Healthy, "")
	}
	get := []string{"GET", ":key"}
	asks(t, redis, []queryCase{
		{run: []string{"PING"}, want: "PONG"},
		{run: []string{"INFO", "replication"}, want: "role:master"},
		{run: []string{"LRANGE", "list", "0", "-1"}, want: "one\ntwo\nthree"},
		{run: []string{"HGETALL", "hash"}, want: "field\nvalue"},
		{run: []string{"LINDEX", "list", ":n"}, params: "n=integer", given: give{"n": "-1"}, want: "three"},
		{run: []string{"LINDEX", "list", ":n"}, params: "n=integer", given: give{"n": "1 x"}, refused: "give n=INTEGER"},
		{run: get, params: "key=text", given: give{"key": "k"}, want: "v"},
		{run: get, params: "key=text", given: give{"key": "k\r\nFLUSHALL"}, refused: "only reads"},
		{run: get, params: "key=text", given: give{"key": "k FLUSHALL"}, want: ""},
		{run: []string{"CLIENT", ":x"}, params: "x=text", given: give{"x": "KILL"}, refused: "only reads"},
		{run: []string{"CONFIG", "GET", ":x"}, params: "x=text", given: give{"x": "requirepass"}, refused: "only reads"},
		{run: []string{"FLUSHALL"}, refused: "only reads"},
		{run: []string{"DBSIZE"}, want: "3"},
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
CREATE USER boss@'127.0.0.1' IDENTIFIED BY 'p@ss';
GRANT ALL ON *.* TO boss@'127.0.0.1' WITH GRANT OPTION;
CREATE USER filer@'127.0.0.1' IDENTIFIED BY 'p@ss';
GRANT SELECT, FILE, PROCESS ON *.* TO filer@'127.0.0.1';
CREATE USER super@'127.0.0.1' IDENTIFIED BY 'p@ss';
GRANT SELECT, SUPER ON *.* TO super@'127.0.0.1';
CREATE USER member@'127.0.0.1' IDENTIFIED BY 'p@ss';
GRANT SELECT ON shop.* TO member@'127.0.0.1';
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
	end := server(t, ops.ProbeSpec{Type: "mysql", URL: shop, Password: password}, path, "--no-defaults", "--user=root", "--datadir="+data,
		"--socket="+filepath.Join(dir, "s"), "--port="+port, "--bind-address=127.0.0.1", "--init-file="+first, "--innodb-log-file-size=4M",
		"--innodb-buffer-pool-size=8M", "--pid-file="+filepath.Join(dir, "pid"), "--skip-name-resolve", "--performance-schema=off",
		"--ssl-cert="+cert, "--ssl-key="+key)
	to := func(address, query string, expect ...string) ops.ProbeSpec {
		return ops.ProbeSpec{URL: address, Password: password, Query: query, Expect: expect}
	}
	slow := to(shop, "SELECT SLEEP(60)")
	slow.Timeout = 300 * time.Millisecond
	looks(t, "mysql", []serverCase{
		{"connect", to(shop, ""), ""},
		{"without a database", to(base, ""), ""},
		{"password in the address", ops.ProbeSpec{URL: "mysql://watch:p%40ss@127.0.0.1:" + port + "/shop"}, ""},
		{"number", to(shop, "SELECT n, note FROM orders", "42"), ""},
		{"text", to(shop, "SELECT note FROM orders", "open", "paid"), ""},
		{"other value", to(shop, "SELECT COUNT(*) FROM orders", "0"), `the first value is "1", not 0`},
		{"nothing", to(shop, "SELECT NULL", "x"), `the first value is "", not x`},
		{"no rows", to(shop, "SELECT n FROM orders WHERE n < 0", "x"), `the first value is "", not x`},
		{"wrong password", ops.ProbeSpec{URL: shop, Password: "wrong word"}, "Access denied for user 'watch'@'127.0.0.1' (using password: YES) (1045)"},
		{"no password", ops.ProbeSpec{URL: shop}, "Access denied for user 'watch'@'127.0.0.1' (using password: NO) (1045)"},
		{"no such database", to(base+"/barn", ""), "Access denied for user 'watch'@'127.0.0.1' to database 'barn' (1044)"},
		{"no such table", to(shop, "SELECT 1 FROM none"), "Table 'shop.none' doesn't exist (1146)"},
		{"no statement", to(shop, "SELEKT"), "You have an error in your SQL syntax"},
		{"one statement only", to(shop, "SELECT 1; DELETE FROM orders"), "You have an error in your SQL syntax"},
		{"what it may not do", to(shop, "DELETE FROM orders"), "DELETE command denied to user 'watch'@'127.0.0.1'"},
		{"a query that takes too long", slow, "no answer within 300ms"},
		{"tls", to(shop+"?tls=skip-verify", "SHOW STATUS LIKE 'Ssl_version'", "Ssl_version"), ""},
		{"tls of a stranger", to(shop+"?tls=true", ""), "certificate: x509: certificate signed by unknown authority"},
	})
	app := ops.ProbeSpec{Type: "mysql", URL: "mysql://app@127.0.0.1:" + port + "/shop", Password: password}
	const hostile = `' OR 1=1; DROP TABLE orders; -- \`
	asks(t, app, []queryCase{
		{run: statement("SELECT n, note FROM orders"), want: "n\tnote\n42\tpaid\n"},
		{run: statement("SELECT note FROM orders WHERE n = :n OR n = :n"), params: "n=integer", given: give{"n": "42"}, want: "note\npaid\n"},
		{run: statement("SELECT n FROM orders LIMIT :n"), params: "n=integer", given: give{"n": "1"}, want: "n\n42\n"},
		{run: statement("SELECT :t AS t"), params: "t=text", given: give{"t": hostile}, want: hostile},
		{run: statement("SELECT note FROM orders WHERE note = :t"), params: "t=text", given: give{"t": "' OR '1'='1"}, want: "note\n"},
		{run: statement("SELECT spoil()"), refused: "READ ONLY transaction (1792)"},
		{run: statement("SELECT 1; DELETE FROM orders"), refused: "more than one statement"},
		{run: statement("SELECT SLEEP(20)"), refused: "no answer in time"},
		{run: statement("SELECT COUNT(*) FROM orders"), want: "\n1\n"},
	})
	running := "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'SELECT SLEEP(20)%'"
	await := ops.ProbeSpec{Type: "mysql", URL: app.URL, Password: password, Query: running, Expect: []string{"0"}}
	for deadline := time.Now().Add(time.Minute); run(t, await).Status != ops.Healthy; <-time.After(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a query that was given up goes on")
		}
	}
	for _, line := range []string{
		"CREATE ROLE files", "GRANT FILE ON *.* TO files", "GRANT files TO member@'127.0.0.1'", "SET DEFAULT ROLE files FOR member@'127.0.0.1'",
	} {
		want(t, run(t, ops.ProbeSpec{Type: "mysql", URL: "mysql://boss@127.0.0.1:" + port + "/mysql", Password: password, Query: line}), ops.Healthy, "")
	}
	for user, has := range map[string]string{"boss": "ALL PRIVILEGES", "filer": "FILE", "super": "SUPER", "member": "FILE"} {
		app.URL = "mysql://" + user + "@127.0.0.1:" + port + "/shop"
		asks(t, app, []queryCase{{run: statement("SELECT 1 AS one"), refused: "the rights of " + has + ", so agents ask nothing through it"}})
	}
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

// Whatever an agent gives, and whatever the operator wrote, nothing changes and nothing reaches beyond tables.
func TestQueriesOfARealPostgreSQLOnlyRead(t *testing.T) {
	address := pgtest.URL(t)
	at, err := url.Parse(address)
	must(t, err)
	db, err := New(Options{}).Databases["postgres"](t.Context(), at)
	must(t, err)
	defer func() { _ = db.Close() }()
	roles := strings.Split("reader, boss, signal, files, group, heir", ", ")
	for i, role := range roles {
		roles[i] = "q_" + strings.Trim(at.Path, "/") + "_" + role
	}
	for _, line := range []string{
		"CREATE TABLE orders (n int, note text, at timestamptz DEFAULT now())", "INSERT INTO orders VALUES (42, 'paid')", "CREATE SEQUENCE numbers",
		"CREATE FUNCTION wipe() RETURNS void LANGUAGE sql AS 'DELETE FROM orders'",
		"CREATE ROLE " + roles[0] + " LOGIN", "GRANT ALL ON ALL TABLES IN SCHEMA public TO " + roles[0], "GRANT ALL ON SEQUENCE numbers TO " + roles[0],
		"CREATE ROLE " + roles[1] + " LOGIN SUPERUSER", "CREATE ROLE " + roles[2] + " LOGIN IN ROLE pg_signal_backend",
		"CREATE ROLE " + roles[3] + " IN ROLE pg_execute_server_program, pg_read_server_files",
		"CREATE ROLE " + roles[4] + " LOGIN NOINHERIT IN ROLE " + roles[3], "CREATE ROLE " + roles[5] + " LOGIN NOINHERIT IN ROLE " + roles[1],
	} {
		if _, err := db.ExecContext(t.Context(), line); err != nil {
			t.Fatal(line, err)
		}
	}
	as := func(role string) ops.ProbeSpec {
		u := *at
		u.User = url.User(role)
		return ops.ProbeSpec{Type: "postgres", URL: u.String()}
	}
	const (
		readOnly = "in a read-only transaction (25006)"
		hostile  = `'; DELETE FROM orders; SELECT U&"pg!005fterminate!005fbackend"(1) UESCAPE '!'; --`
		byID     = "SELECT note FROM orders WHERE n = :id;"
		quoted   = "SELECT n::text || ' :t ''it'' ' AS \":n\", -- :c\n /* ; :d */ $$;:e$$ FROM orders WHERE n > :n"
	)
	asks(t, as(roles[0]), []queryCase{
		{run: statement("SELECT n, note FROM orders"), want: "n\tnote\n42\tpaid\n"},
		{run: statement("SHOW transaction_read_only"), want: "on"},
		{run: statement(byID), params: "id=integer", given: give{"id": "42"}, want: "note\npaid\n"},
		{run: statement(byID), params: "id=integer", given: give{"id": "42; DELETE FROM orders"}, refused: "give id=INTEGER"},
		{run: statement(byID), params: "id=integer", given: give{"id": "99999999999"}, refused: "99999999999"},
		{run: statement("SELECT :t::text AS t"), params: "t=text", given: give{"t": hostile}, want: "t\n" + hostile + "\n"},
		{run: statement("SELECT note FROM orders WHERE note = :t OR note = 'x' || :t"), params: "t=text", given: give{"t": "' OR ''='"}, want: "note\n"},
		{run: statement(quoted), params: "n=integer", given: give{"n": "1"}, want: "42 :t 'it' \t;:e\n"},
		{run: statement("SELECT count(*) FROM orders WHERE at > now() - :h * interval '1 hour'"), params: "h=integer", given: give{"h": "2"}, want: "\n1\n"},
		{run: statement("WITH gone AS (DELETE FROM orders RETURNING n) SELECT n FROM gone"), refused: readOnly},
		{run: statement("EXPLAIN ANALYZE DELETE FROM orders"), refused: readOnly},
		{run: statement("SELECT wipe()"), refused: readOnly},
		{run: statement("SELECT nextval('numbers')"), refused: readOnly},
		{run: statement("SELECT 1; DELETE FROM orders"), refused: "more than one statement"},
		{run: statement(`SELECT E'\'', 2; COMMIT; DELETE FROM orders --'`), refused: "multiple commands"}, // whatever we think of its quotes
		{run: statement("SELECT pg_sleep(20)"), refused: "no answer in time"},
		{run: statement("SELECT generate_series(1, 100000000)"), want: "\n50\n… more than 50 rows"},
		{run: statement("SELECT COUNT(*) FROM orders"), want: "\n1\n"},
	})
	for i, has := range map[int]string{1: "a superuser", 2: "pg_signal_backend", 4: "pg_", 5: "a superuser"} {
		asks(t, as(roles[i]), []queryCase{{run: statement("SELECT 1 AS one"), refused: "the account of the probe has the rights of " + has}})
	}
	asks(t, ops.ProbeSpec{Type: "postgres", URL: address}, []queryCase{{run: statement("SELECT 1 AS one"), refused: "IN ROLE pg_read_all_data"}})
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
