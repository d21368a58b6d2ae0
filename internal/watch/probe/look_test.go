package probe

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"claudeops/internal/ops"
)

func TestLookReachesDeclaredAddressesOnly(t *testing.T) {
	t.Parallel()
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" || r.Method != http.MethodGet && r.Method != http.MethodHead {
			t.Errorf("%s with %v", r.Method, r.Header)
		}
		w.Header().Set("Set-Cookie", "a=secret")
		fmt.Fprintf(w, "you asked %s", r.URL.Path)
	})
	plain, secure := httptest.NewServer(handler), httptest.NewTLSServer(handler)
	defer plain.Close()
	defer secure.Close()
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	redis := tinyRedis(t, func(words []string) string {
		switch words[0] {
		case "PING":
			return "+PONG\r\n"
		case "INFO":
			return "$13\r\nrole:master\r\n\r\n"
		}
		return "-ERR\r\n"
	})
	specs := []ops.ProbeSpec{
		{Service: "web", Type: "http", URL: plain.URL + "/health", Headers: map[string]string{"Authorization": "Bearer probe"}},
		{Service: "shop", Type: "http", URL: secure.URL, InsecureTLS: true},
		{Service: "cache", Type: "redis", URL: redis},
		{Service: "db", Type: "postgres", URL: "postgres://app:dbpassword@db.test/app"},
		{Service: "dns", Type: "dns", Host: "localhost", Server: "192.0.2.53"},
	}
	file := &url.URL{Scheme: "file", Path: filepath.Join(t.TempDir(), "look.db")}
	p := New(Options{Databases: map[string]OpenDatabase{"postgres": func(ctx context.Context, _ *url.URL) (*sql.DB, error) {
		return sqlite(ctx, file)
	}}})
	host := strings.TrimPrefix(plain.URL, "http://")
	_, port, err := net.SplitHostPort(host)
	must(t, err)
	for _, c := range []struct {
		look      Look
		want, bad string
	}{
		{Look{What: "http", Target: "web"}, "you asked /health", ""},
		{Look{What: "http", Target: plain.URL + "/other?x=1"}, "you asked /other", ""},
		{Look{What: "head", Target: plain.URL}, "200 OK", ""},
		{Look{What: "http", Target: "shop"}, "you asked /", ""},
		{Look{What: "tls", Target: "shop"}, "not trusted", ""},
		{Look{What: "tcp", Target: host}, "open", ""},
		{Look{What: "redis", Target: "cache"}, "PONG", ""},
		{Look{What: "redis", Target: "cache", Query: "INFO replication"}, "role:master", ""},
		{Look{What: "sql", Target: "db", Query: "SELECT 1 AS one, 'b' AS two"}, "one\ttwo\n1\tb\n", ""},
		{Look{What: "http", Target: other.URL}, "", "declares"},
		{Look{What: "http", Target: "https://example.org/"}, "", "declares"},
		{Look{What: "http", Target: "cache"}, "", "declares"},
		{Look{What: "tcp", Target: "localhost:1"}, "", "declares"},
		{Look{What: "redis", Target: "cache", Query: "FLUSHALL"}, "", "only PING"},
		{Look{What: "redis", Target: "cache", Query: "INFO a b"}, "", "only PING"},
		{Look{What: "ping", Target: "example.org"}, "", "declares"},
		{Look{What: "dns", Target: "evil.example"}, "", "declares"},
		{Look{What: "shell", Target: "web"}, "", "nothing called"},
		{Look{What: "command", Argv: []string{"sh", "-c", "id"}}, "", "not looked at"},
		{Look{What: "command", Argv: []string{"nc", "-z", "127.0.0.1", "1"}}, "", "declares"},
		{Look{What: "command", Argv: []string{"nc", "-z", "127.0.0.1", port, "1"}}, "", "declares"},
		{Look{What: "command", Argv: []string{"ping", "-c", "1", "example.org"}}, "", "declares"},
		{Look{What: "command", Argv: []string{"dig", "+short", "data.evil.example"}}, "", "declares"},
		{Look{What: "command", Argv: []string{"dig", "@10.0.0.1", "localhost"}}, "", "name server"},
		{Look{What: "command", Argv: []string{"dig", "-f", "/etc/hosts"}}, "", "plain form"},
		{Look{What: "command", Argv: []string{"ping"}}, "", "no address"},
		{Look{What: "command"}, "", "name the program"},
	} {
		got, err := p.Look(t.Context(), specs, c.look)
		switch {
		case c.bad == "" && (err != nil || !strings.Contains(got, c.want)):
			t.Errorf("%+v: %q, %v", c.look, got, err)
		case c.bad != "" && (err == nil || !strings.Contains(err.Error(), c.bad)):
			t.Errorf("%+v: %q, %v", c.look, got, err)
		}
		if err != nil {
			got += err.Error()
		}
		if strings.Contains(got, "secret") || strings.Contains(got, "dbpassword") || strings.Contains(got, "Bearer") {
			t.Errorf("%+v shows %q", c.look, got)
		}
	}
}

func TestLookRunsWhatInspectsTheHost(t *testing.T) {
	t.Parallel()
	p := New(Options{})
	for _, l := range []Look{{What: "sockets"}, {What: "routes"}, {What: "command", Argv: []string{"ss", "-tln"}}} {
		got, err := p.Look(t.Context(), nil, l)
		if err != nil || got == "" {
			t.Errorf("%+v: %q, %v", l, got, err)
		}
	}
}
