package daemon

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"claudeops/internal/config"
	"claudeops/internal/ops"
)

func TestWhereATierMayGo(t *testing.T) {
	c := &config.Config{Guard: config.Guard{Hosts: []string{"ie01"}, Sandbox: config.Sandbox{Network: config.NetworkServices, Hosts: []string{"github.com", "git:2222"}}}}
	e := ops.Environment{
		Policy: ops.Policy{Inventory: ops.Inventory{Services: []ops.Service{
			{Name: "web", Methods: []string{"POST"}},
			{Name: "site"},
			{Name: "db"},
			{Name: "cache", Agents: "read"},
			{Name: "batch"},
			{Name: "admin", Methods: []string{"any"}},
		}}},
		Probes: []ops.ProbeSpec{
			{Service: "web", Type: "http", URL: "http://web:8080/health"},
			{Service: "site", Type: "http", URL: "https://site/"},
			{Service: "db", Type: "postgres", URL: "postgres://u@db/app"},
			{Service: "cache", Type: "redis", URL: "redis://cache"},
			{Service: "admin", Type: "http", URL: "https://admin:8443/"},
			{Service: "batch", Type: "container", Container: "batch"},
		},
	}
	say := func(tier ops.Tier) string {
		permits, without, err := Permits(c, e, tier)
		if err != nil || !slices.Equal(without, []string{"batch"}) {
			t.Errorf("%v, without an address: %v", err, without)
		}
		var out []string
		for _, p := range permits {
			out = append(out, p.String())
		}
		return strings.Join(out, "\n")
	}
	first, second := say(ops.Tier1), say(ops.Tier2)
	for _, want := range []string{
		"http://web:8080 (web, GET, HEAD)", "site:443 (site, with the tool look only)", "db:5432 (db, with the tool look only)", "\ncache:6379 (cache)",
		"ie01:22 (ssh)", "https://github.com:443", "git:2222 (sandbox.network_hosts)", "admin:8443 (admin, with the tool look only)",
	} {
		if !strings.Contains(first, want) {
			t.Errorf("Tier 1 lacks %q:\n%s", want, first)
		}
	}
	for _, want := range []string{"http://web:8080 (web, POST)", "https://admin:8443 (admin)", "db:5432 (db, with the tool look only)"} {
		if !strings.Contains(second, want) {
			t.Errorf("Tier 2 lacks %q:\n%s", want, second)
		}
	}
	c.Guard.Sandbox.Network = config.NetworkNone
	if permits, _, err := Permits(c, e, ops.LastTier); err != nil || len(permits) > 0 {
		t.Errorf("%v, %v", permits, err)
	}
}

func TestAKeyInsideASessionIsNamed(t *testing.T) {
	c := &config.Config{Agent: config.Agent{KeyProxy: config.KeyProxyAuto}}
	for env, inside := range map[string]bool{"ANTHROPIC_API_KEY=x": false, "CLAUDE_CODE_USE_BEDROCK=1": true, "CLAUDE_CODE_USE_VERTEX=0": false} {
		if got := KeyInside(c, []string{env}); (got != "") != inside {
			t.Errorf("%s: %q", env, got)
		}
	}
	c.Agent.KeyProxy = config.KeyProxyOff
	if KeyInside(c, nil) == "" {
		t.Error("without a proxy the key is inside")
	}
}

func TestOurOwnListenersAreKnown(t *testing.T) {
	h := newHost(Options{Config: &config.Config{Listen: "0.0.0.0:8080", DatabaseURL: "postgres://u@127.0.0.1:5433/x"}}, nil)
	h.networks.keys = map[string]bool{"127.0.0.1:4711": true}
	for address, own := range map[string]bool{
		"127.0.0.1:8080": true, "127.0.0.9:8080": true, "127.0.0.1:5433": true, "127.0.0.1:4711": true, "127.0.0.1:8081": false, "192.0.2.1:8080": false,
	} {
		if got := h.networks.own(netip.MustParseAddrPort(address)); got != own {
			t.Errorf("%s: %v", address, got)
		}
	}
}
