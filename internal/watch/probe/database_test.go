package probe

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
	_ "modernc.org/sqlite"

	"claudeops/internal/ops"
)

// tinyRedis answers the commands it is asked until the test ends.
func tinyRedis(t *testing.T, answer func(words []string) string) string {
	t.Helper()
	return "redis://" + tinyServer(t, func(conn net.Conn) {
		in := bufio.NewReader(conn)
		for words := readCommand(in); words != nil; words = readCommand(in) {
			_, _ = io.WriteString(conn, answer(words))
		}
	})
}

func readCommand(in *bufio.Reader) []string {
	number := func(mark string) int {
		line, err := in.ReadString('\n')
		n, convErr := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, mark)))
		if err != nil || convErr != nil {
			return -1
		}
		return n
	}
	n := number("*")
	var words []string
	for range n {
		text := make([]byte, number("$")+2)
		if _, err := io.ReadFull(in, text); err != nil {
			return nil
		}
		words = append(words, string(text[:len(text)-2]))
	}
	return words
}

func TestRedisIsAsked(t *testing.T) {
	var login, database string
	server := tinyRedis(t, func(words []string) string {
		switch words[0] {
		case "PING":
			return "+PONG\r\n"
		case "AUTH":
			login = strings.Join(words[1:], "/")
			if words[len(words)-1] != "hunter2" {
				return "-WRONGPASS invalid password " + words[len(words)-1] + "\r\n"
			}
			return "+OK\r\n"
		case "SELECT":
			database = words[1]
			return "+OK\r\n"
		case "GET":
			return "$5\r\nhello\r\n"
		case "LLEN":
			return ":12\r\n"
		case "ROLE":
			return "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"
		case "NONE":
			return "$-1\r\n"
		case "LONG":
			return "$2000000\r\n"
		case "WEIRD":
			return "HTTP/1.1 400 Bad Request\r\n"
		case "DEEP":
			return strings.Repeat("*1\r\n", 50)
		}
		return "-LOADING Redis is loading the dataset in memory\r\n"
	})
	cases := []struct {
		name    string
		url     string
		spec    ops.ProbeSpec
		problem string
	}{
		{"ping", server, ops.ProbeSpec{}, ""},
		{"value", server, ops.ProbeSpec{Query: "GET greeting", Expect: []string{"hi", "hello"}}, ""},
		{"other value", server, ops.ProbeSpec{Query: "GET greeting", Expect: []string{"bye"}}, `the first value is "hello", not bye`},
		{"number", server, ops.ProbeSpec{Query: "LLEN queue", Expect: []string{"12"}}, ""},
		{"list", server, ops.ProbeSpec{Query: "ROLE", Expect: []string{"master"}}, ""},
		{"no value", server, ops.ProbeSpec{Query: "NONE", Expect: []string{"x"}}, `the first value is "", not x`},
		{"loading", server, ops.ProbeSpec{Query: "DBSIZE"}, "DBSIZE: LOADING Redis is loading the dataset in memory"},
		{"long", server, ops.ProbeSpec{Query: "long"}, "LONG: LOADING Redis is loading the dataset in memory"},
		{"longer", server, ops.ProbeSpec{Query: "LONG"}, "LONG: the answer is longer than 1048576 bytes"},
		{"no redis", server, ops.ProbeSpec{Query: "WEIRD"}, "WEIRD: the answer is not in the Redis protocol"},
		{"lists of lists", server, ops.ProbeSpec{Query: "DEEP"}, "DEEP: the answer is not in the Redis protocol"},
		{"wrong password", server, ops.ProbeSpec{Password: "hunter3"}, "AUTH: WRONGPASS invalid password xxxxx"},
		{"no number", server + "/x", ops.ProbeSpec{}, `"x" is not the number of a database`},
		{"no address", "cache:6379", ops.ProbeSpec{}, "give the address as redis://host:6379/0, or rediss:// for TLS"},
		{"closed", "redis://" + closedPort(t), ops.ProbeSpec{}, "connection refused"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.spec.Type, c.spec.URL = "redis", c.url
			status := ops.Healthy
			if c.problem != "" {
				status = ops.Down
			}
			got := run(t, c.spec)
			want(t, got, status, c.problem)
			if got.Type != ops.CheckDatabase {
				t.Errorf("got %+v", got)
			}
		})
	}
	withUser := strings.Replace(server, "redis://", "redis://watch:hunter2@", 1) + "/3"
	got := run(t, ops.ProbeSpec{Type: "redis", URL: withUser})
	want(t, got, ops.Healthy, "")
	if login != "watch/hunter2" || database != "3" || strings.Contains(got.Probe, "hunter2") {
		t.Errorf("login %q, database %q, probe %q", login, database, got.Probe)
	}
	want(t, run(t, ops.ProbeSpec{Type: "redis", URL: server, Password: "hunter2"}), ops.Healthy, "")
	if login != "hunter2" {
		t.Errorf("login %q", login)
	}
}

func TestASilentRedisIsGivenUp(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = listener.Close() }()
	for _, scheme := range []string{"redis://", "rediss://"} {
		got := run(t, ops.ProbeSpec{Type: "redis", URL: scheme + listener.Addr().String(), Timeout: 50 * time.Millisecond})
		want(t, got, ops.Down, "no answer within 50ms")
	}
}

// sqlite opens a real database without a server.
func sqlite(_ context.Context, address *url.URL) (*sql.DB, error) {
	return sql.Open("sqlite", address.String())
}

func TestSQLDatabasesAreQueried(t *testing.T) {
	file := "file:" + filepath.Join(t.TempDir(), "test.db")
	prober := New(Options{Databases: map[string]OpenDatabase{"postgres": sqlite}})
	look := func(spec ops.ProbeSpec) ops.Check {
		spec.Type, spec.URL = "postgres", file
		return prober.Run(t.Context(), "home", []ops.ProbeSpec{spec}, ops.ProbeWatch)[0]
	}
	want(t, look(ops.ProbeSpec{}), ops.Healthy, "")
	want(t, look(ops.ProbeSpec{Query: "SELECT 'primary', 2, NULL", Expect: []string{"primary"}}), ops.Healthy, "")
	want(t, look(ops.ProbeSpec{Query: "SELECT 41", Expect: []string{"42"}}), ops.Down, `the first value is "41", not 42`)
	want(t, look(ops.ProbeSpec{Query: "SELECT 1 WHERE 0", Expect: []string{"1"}}), ops.Down, `the first value is "", not 1`)
	if got := look(
		ops.ProbeSpec{Query: "SELECT * FROM missing"},
	); got.Status != ops.Down ||
		!strings.Contains(got.Error, "no such table: missing") {
		t.Errorf("got %+v", got)
	}
	missing := prober.Run(t.Context(), "home", []ops.ProbeSpec{{Type: "mysql", URL: "mysql://db"}}, ops.ProbeWatch)[0]
	want(t, missing, ops.Down, "there is no driver for mysql")
	if line := Describe(ops.ProbeSpec{Type: "mysql", URL: "mysql://a:secret@db", Query: "SELECT 1"}); line != "mysql://a:xxxxx@db SELECT 1" {
		t.Errorf("got %q", line)
	}
}

// tinyServer hands each connection to talk until the test ends.
func tinyServer(t *testing.T, talk func(net.Conn)) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	ended := make(chan struct{})
	t.Cleanup(func() { _ = listener.Close(); <-ended })
	go func() {
		defer close(ended)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			talk(conn)
			_ = conn.Close()
		}
	}()
	return listener.Addr().String()
}

// postgres answers every query with one value, if the password is right.
func postgres(conn net.Conn) {
	backend := pgproto3.NewBackend(conn, conn)
	startup, err := backend.ReceiveStartupMessage()
	if _, ok := startup.(*pgproto3.StartupMessage); err != nil || !ok {
		return
	}
	backend.Send(&pgproto3.AuthenticationCleartextPassword{})
	_ = backend.Flush()
	_ = backend.SetAuthType(pgproto3.AuthTypeCleartextPassword)
	message, err := backend.Receive()
	if password, ok := message.(*pgproto3.PasswordMessage); err != nil || !ok || password.Password != "hunter2" {
		backend.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: "28P01", Message: "password authentication failed for user \"watch\""})
		_ = backend.Flush()
		return
	}
	backend.Send(&pgproto3.AuthenticationOk{})
	backend.Send(&pgproto3.ParameterStatus{Name: "standard_conforming_strings", Value: "on"})
	backend.Send(&pgproto3.ParameterStatus{Name: "client_encoding", Value: "UTF8"})
	backend.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	for backend.Flush() == nil {
		message, err := backend.Receive()
		query, ok := message.(*pgproto3.Query)
		switch {
		case err != nil || (!ok && message == nil):
			return
		case !ok:
			continue
		case query.String == "hang":
			continue
		case strings.HasPrefix(query.String, "SELECT"):
			backend.Send(&pgproto3.RowDescription{Fields: []pgproto3.FieldDescription{{Name: []byte("v"), DataTypeOID: 25, DataTypeSize: -1}}})
			backend.Send(&pgproto3.DataRow{Values: [][]byte{[]byte("primary")}})
			backend.Send(&pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")})
		case strings.HasPrefix(query.String, "--"):
			backend.Send(&pgproto3.EmptyQueryResponse{})
		default:
			backend.Send(&pgproto3.ErrorResponse{Severity: "ERROR", Code: "42601", Message: "syntax error"})
		}
		backend.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	}
}

func TestPostgreSQLIsAsked(t *testing.T) {
	address := "postgres://watch@" + tinyServer(t, postgres) + "/shop?sslmode=disable"
	for _, c := range []struct {
		name, password, query string
		expect                []string
		problem               string
	}{
		{"connect", "hunter2", "", nil, ""},
		{"value", "hunter2", "SELECT role", []string{"primary"}, ""},
		{"other value", "hunter2", "SELECT role", []string{"replica"}, `the first value is "primary", not replica`},
		{"bad query", "hunter2", "SELEKT", nil, "syntax error (42601)"},
		{"bad password", "hunter3", "", nil, `password authentication failed for user "watch" (28P01)`},
		{"silent", "hunter2", "hang", nil, "no answer within 300ms"},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := ops.ProbeSpec{Type: "postgres", URL: address, Password: c.password, Query: c.query, Expect: c.expect, Timeout: 20 * time.Second}
			if c.query == "hang" {
				spec.Timeout = 300 * time.Millisecond
			}
			status := ops.Healthy
			if c.problem != "" {
				status = ops.Down
			}
			want(t, run(t, spec), status, c.problem)
		})
	}
	want(
		t,
		run(t, ops.ProbeSpec{Type: "postgres", URL: "postgres://a:hunter2@" + closedPort(t) + "/x?sslmode=disable"}),
		ops.Down,
		"connection refused",
	)
}

// mysqlPacket frames a packet.
func mysqlPacket(number byte, body ...[]byte) []byte {
	text := bytes.Join(body, nil)
	return append([]byte{byte(len(text)), byte(len(text) >> 8), 0, number}, text...)
}

func readMySQL(conn net.Conn) []byte {
	head := make([]byte, 4)
	if _, err := io.ReadFull(conn, head); err != nil {
		return nil
	}
	body := make([]byte, int(head[0])|int(head[1])<<8)
	_, _ = io.ReadFull(conn, body)
	return body
}

// mySQL answers every query with one value; it takes the user watch only.
func mySQL(conn net.Conn) {
	salt := []byte("12345678")
	_, _ = conn.Write(mysqlPacket(0, []byte{10}, []byte("8.0.1\x00"), []byte{1, 0, 0, 0}, salt, []byte{0}, []byte{0x00, 0x82},
		[]byte{33, 2, 0}, []byte{0x08, 0x00}, []byte{21}, make([]byte, 10), []byte("123456789012\x00"), []byte("mysql_native_password\x00")))
	if login := readMySQL(conn); !bytes.Contains(login, []byte("watch\x00")) {
		_, _ = conn.Write(mysqlPacket(2, []byte{0xff, 0x15, 0x04}, []byte("#28000Access denied")))
		return
	}
	ok, eof := []byte{0, 0, 0, 2, 0, 0, 0}, []byte{0xfe, 0, 0, 2, 0}
	_, _ = conn.Write(mysqlPacket(2, ok))
	for command := readMySQL(conn); command != nil; command = readMySQL(conn) {
		if command[0] != 3 { // not a query
			_, _ = conn.Write(mysqlPacket(1, ok))
			continue
		}
		column := []byte("\x03def\x00\x00\x00\x01v\x00\x0c\x21\x00\x20\x00\x00\x00\xfd\x00\x00\x00\x00\x00")
		_, _ = conn.Write(slices.Concat(mysqlPacket(1, []byte{1}), mysqlPacket(2, column), mysqlPacket(3, eof),
			mysqlPacket(4, []byte("\x07primary")), mysqlPacket(5, eof)))
	}
}

func TestMySQLIsAsked(t *testing.T) {
	address := tinyServer(t, mySQL) + "/shop"
	want(t, run(t, ops.ProbeSpec{Type: "mysql", URL: "mysql://watch:p%40ss@" + address}), ops.Healthy, "")
	want(t, run(t, ops.ProbeSpec{Type: "mysql", URL: "mysql://watch@" + address, Expect: []string{"primary"}}), ops.Healthy, "")
	want(
		t,
		run(t, ops.ProbeSpec{Type: "mysql", URL: "mysql://watch@" + address, Expect: []string{"replica"}}),
		ops.Down,
		`the first value is "primary", not replica`,
	)
	want(t, run(t, ops.ProbeSpec{Type: "mysql", URL: "mysql://other@" + address}), ops.Down, "Access denied (1045)")
	want(t, run(t, ops.ProbeSpec{Type: "mysql", URL: "mysql://a@" + closedPort(t)}), ops.Down, "connection refused")
}

func TestDatabaseAddresses(t *testing.T) {
	got, err := databaseAddress(ops.ProbeSpec{Type: "postgres", URL: "postgres://watch@db/shop?sslmode=require", Password: "p@ss"})
	if err != nil || got.String() != "postgres://watch:p%40ss@db/shop?sslmode=require" {
		t.Errorf("got %s, %v", got, err)
	}
	if _, err := databaseAddress(ops.ProbeSpec{Type: "mysql", URL: "db"}); err == nil {
		t.Error("an address without a scheme was taken")
	}
}
