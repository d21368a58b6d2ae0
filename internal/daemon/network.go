package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"claudeops/internal/agent"
	"claudeops/internal/config"
	"claudeops/internal/guard/wall"
	"claudeops/internal/guard/wall/network"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// networks opens the networks of sessions.
type networks struct {
	g *ground

	mu   sync.Mutex
	nets map[string]*wall.Net // by the key of the session
	keys map[string]bool      // addresses of all key proxies
}

// openNetwork opens the network of a session and returns its proxy variables.
func (p *plan) openNetwork(ctx context.Context, spec ops.SessionSpec, keys []string) (env []string, end func(), err error) {
	n, c, tier := &p.networks, p.Config, spec.Session.May()
	i := slices.IndexFunc(p.envs, func(e ops.Environment) bool { return e.Name == spec.Environment })
	sandbox := p.sandboxes[spec.Environment]
	if i < 0 {
		return nil, nil, errors.New("the network of the session cannot be opened: its environment has no walls")
	}
	if err := sandbox.CheckNetwork(tier); err != nil {
		return nil, nil, err
	}
	event := ops.Event{
		Environment: spec.Environment, Verb: ops.VerbKeyInside, Level: ops.LevelWarning,
		SessionID: ops.Ptr(spec.Session.ID), CycleID: ops.Ptr(spec.Session.CycleID),
	}
	if why := KeyInside(spec.Env); why != "" {
		if c.Guard.Sandbox.Mode == config.SandboxRequired || len(c.Guard.Sandbox.Hosts) == 0 {
			return nil, nil, fmt.Errorf("the key would be inside the session: %s; give an API key that the proxy can hold, or list the "+
				"provider's hosts in sandbox.network_hosts and do not set sandbox.mode: required", why)
		}
		event.Reason = why
		n.record(ctx, event)
	}
	if spec.DryRun {
		tier = min(tier, ops.Tier1)
	}
	o := network.Options{Keys: keys, Own: n.own, Refused: func(r network.Refusal) {
		row := event
		row.Verb, row.Reason, row.Detail = ops.VerbWallRefused, r.Rule, ops.WallDetail{What: r.What}
		n.record(ctx, row)
	}}
	if o.Permits, o.Without, err = Permits(c, p.envs[i], tier); err != nil {
		return nil, nil, err
	}
	o.Permits = slices.DeleteFunc(o.Permits, func(to network.Permit) bool { return to.Git != nil && !n.operators(ctx, to.Git.From) })
	if sandbox.Namespaced(spec.Session.May()) {
		if err := os.MkdirAll(gateDir(c), 0o700); err != nil {
			return nil, nil, fmt.Errorf("open network of the session: %w", err)
		}
		if o.Dir, err = os.MkdirTemp(gateDir(c), "n"+strconv.FormatInt(int64(spec.Session.ID), 10)+"-"); err != nil {
			return nil, nil, fmt.Errorf("open network of the session: %w", err)
		}
	}
	g, err := network.Open(ctx, o)
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(o.Dir))
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.nets == nil {
		n.nets, n.keys = map[string]*wall.Net{}, map[string]bool{}
	}
	n.nets[spec.Session.Key] = &wall.Net{Dir: o.Dir, Relay: g.Network(), Ports: g.Ports(), Trial: g.Trial()}
	for _, key := range keys {
		n.keys[key] = true
	}
	return g.Env(), func() {
		g.Close()
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.nets, spec.Session.Key)
		for _, key := range keys {
			delete(n.keys, key)
		}
		if o.Dir != "" {
			_ = os.RemoveAll(o.Dir) // the next start sweeps what is left
		}
	}, nil
}

// sweepAge is how old a folder without a socket must be: another supervisor may just be opening a younger one.
const sweepAge = time.Minute

// sweep removes what an earlier supervisor left: folders whose socket nobody serves.
func (n *networks) sweep() {
	left, _ := filepath.Glob(filepath.Join(gateDir(n.g.Config), "n*-*")) // the pattern is right
	for _, dir := range left {
		info, err := os.Lstat(dir)
		if _, none := os.Lstat(filepath.Join(dir, network.SocketName)); err != nil || none != nil && time.Since(info.ModTime()) < sweepAge {
			continue
		}
		if conn, err := net.Dial("unix", filepath.Join(dir, network.SocketName)); err == nil { //nolint:noctx // it answers at once or not at all
			_ = conn.Close()
			continue
		}
		_ = os.RemoveAll(dir)
	}
}

// of is the network of a session; nil where it has that of the machine.
func (n *networks) of(key string) *wall.Net {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.nets[key]
}

func (n *networks) record(ctx context.Context, event ops.Event) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if _, err := n.g.store.Journal.AddEvent(ctx, event); err != nil {
		n.g.Logger.WarnContext(ctx, "a refusal of the network could not be recorded", "error", err)
	}
}

// mostSessions bounds how many sessions of one moment are looked at.
const mostSessions = 2000

// operators reports whether the operator wrote the configuration of a clone: no session that can write was running when the file was
// changed for the last time, which the kernel notes and nobody can set.
func (n *networks) operators(ctx context.Context, file string) bool {
	var dir, info unix.Stat_t
	if err := errors.Join(unix.Lstat(filepath.Dir(file), &dir), unix.Lstat(file, &info)); err != nil ||
		dir.Mode&unix.S_IFMT != unix.S_IFDIR || info.Mode&unix.S_IFMT != unix.S_IFREG {
		return false
	}
	running, err := n.g.store.Reports.Sessions(ctx, store.SessionFilter{At: time.Unix(info.Ctim.Unix()), Limit: mostSessions})
	return err == nil && !slices.ContainsFunc(running, func(s ops.Session) bool { return s.May() > ops.Tier1 })
}

// own reports whether an address is one of this program's listeners, or its database.
func (n *networks) own(at netip.AddrPort) bool {
	n.mu.Lock()
	mine := n.keys[at.String()]
	n.mu.Unlock()
	places := []string{n.g.Config.Listen}
	if u, err := url.Parse(n.g.Config.DatabaseURL); err == nil && u.Host != "" {
		places = append(places, net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "5432")))
	}
	for _, place := range places {
		host, port, err := net.SplitHostPort(place)
		if err != nil || port != strconv.Itoa(int(at.Port())) {
			continue
		}
		found, _ := net.LookupHost(cmp.Or(host, "0.0.0.0")) //nolint:noctx // a name that is not found is no address
		mine = mine || ofMachine(at.Addr()) && slices.ContainsFunc(found, func(a string) bool {
			addr, err := netip.ParseAddr(a)
			return err == nil && (addr.IsUnspecified() || ofMachine(addr))
		}) || slices.Contains(found, at.Addr().Unmap().String())
	}
	return mine
}

// ofMachine reports whether an address is one of this machine.
func ofMachine(addr netip.Addr) bool {
	addr = addr.Unmap()
	all, _ := net.InterfaceAddrs() // without them only loopback is known
	return addr.IsLoopback() || slices.ContainsFunc(all, func(a net.Addr) bool {
		prefix, err := netip.ParsePrefix(a.String())
		return err == nil && prefix.Addr().Unmap() == addr
	})
}

// KeyInside says why a session would hold a key that the proxy cannot hold for it; empty when it holds none.
func KeyInside(env []string) string {
	for _, name := range []string{"CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY"} {
		if v := agent.Variable(env, name); v != "" && v != "0" && v != "false" {
			return name + " is set, and the proxy cannot sign requests of that provider"
		}
	}
	return ""
}

// Permits are where the sessions of a tier may go, and the services that have no address.
func Permits(c *config.Config, e ops.Environment, tier ops.Tier) (out []network.Permit, without []string, err error) {
	if c.Guard.Sandbox.Network == config.NetworkNone {
		return nil, nil, nil
	}
	for _, s := range e.Policy.Inventory.Services {
		before := len(out)
		for _, p := range e.Probes {
			if p.Service == s.Name {
				out = append(out, probePermits(p, s, tier)...)
			}
		}
		if len(out) == before && s.Name != ops.EngineService {
			without = append(without, s.Name)
		}
	}
	rules, err := Rules(c)
	if err != nil {
		return nil, nil, err
	}
	ssh, web := slices.Clone(c.Guard.Hosts), []string{}
	for _, r := range rules {
		ssh, web = append(ssh, r.Hosts...), append(web, r.WebHosts...)
	}
	for _, host := range ssh {
		out = append(out, network.Permit{Name: "ssh", Host: host, Port: 22, How: network.Raw})
	}
	for _, host := range web {
		out = append(out, webPermits("web_hosts", host)...)
	}
	for _, entry := range c.Guard.Sandbox.Hosts {
		const name = "sandbox.network_hosts"
		host, port, err := net.SplitHostPort(entry)
		if err != nil {
			out = append(out, webPermits(name, strings.Trim(entry, "[]"))...)
			continue
		}
		n, _ := strconv.Atoi(port) // 0 is permitted nowhere
		out = append(out, network.Permit{Name: name, Host: host, Port: n, How: network.Raw})
	}
	return append(append(out, clusterPermits(e)...), remotePermits(e, out)...), without, nil
}

// remotePermits are the repositories that the clones of an environment come from, where the host itself is not permitted. An agent's
// git asks by plain HTTP, and the supervisor speaks TLS: so it sees that nothing but a fetch is asked for.
func remotePermits(e ops.Environment, permitted []network.Permit) []network.Permit {
	var out []network.Permit
	files, _ := filepath.Glob(filepath.Join(e.ReposDir, "*", ".git", "config")) // the pattern is right
	for _, file := range files {
		raw, _ := os.ReadFile(file) // a file that cannot be read names no remote
		remote := false
		for line := range strings.Lines(string(raw)) {
			if line = strings.TrimSpace(line); strings.HasPrefix(line, "[") {
				remote = strings.HasPrefix(line, "[remote ")
			}
			name, value, _ := strings.Cut(line, "=")
			u, err := url.Parse(strings.Trim(strings.TrimSpace(value), `"`))
			if !remote || strings.TrimSpace(name) != "url" || err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
				continue
			}
			usual := map[string]string{"http": "80", "https": "443"}[u.Scheme]
			port, _ := strconv.Atoi(cmp.Or(u.Port(), usual)) // 0 is permitted nowhere
			p := network.Permit{Name: filepath.Base(filepath.Dir(filepath.Dir(file))), Host: u.Hostname(), Port: port, Git: &network.Remote{
				Path: strings.TrimRight(u.EscapedPath(), "/"), Secure: u.Scheme == "https", User: u.User, From: file,
			}}
			if !network.Listed(permitted, u, network.TLS, network.Raw) {
				out = append(out, p)
			}
		}
	}
	return out
}

func webPermits(name, host string) []network.Permit {
	return []network.Permit{
		{Name: name, Host: host, Port: 443, How: network.TLS}, {Name: name, Host: host, Port: 80},
	}
}

// probePermits are the places that a probe looks at.
func probePermits(p ops.ProbeSpec, s ops.Service, tier ops.Tier) []network.Permit {
	out := network.Permit{Name: s.Name, Headers: s.Headers}
	if tier > ops.Tier1 {
		out.Methods = s.Methods
	}
	free := slices.Contains(out.Methods, network.Any)
	where := p.Address
	if u, err := url.Parse(p.URL); err == nil && u.Host != "" {
		usual := map[string]string{"http": "80", "https": "443", "mysql": "3306", "redis": "6379", "rediss": "6379"}[u.Scheme]
		where = net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), usual, "5432"))
		switch {
		case u.Scheme == "http":
		case free && u.Scheme == "https":
			out.How = network.TLS
		case free:
			out.How = network.Raw
		default:
			out.How = network.Look
		}
	} else if out.How = network.Touch; free {
		out.How = network.Raw
	}
	host, port, err := net.SplitHostPort(where)
	if err != nil {
		return nil
	}
	out.Host = host
	out.Port, _ = strconv.Atoi(port) // the configuration checked it
	return []network.Permit{out}
}

// clusterPermits are the API servers of the kubeconfig that the operator gives to agents.
func clusterPermits(e ops.Environment) []network.Permit {
	var out []network.Permit
	for _, file := range filepath.SplitList(agent.Variable(e.AgentEnv, "KUBECONFIG")) {
		raw, _ := os.ReadFile(file) // a file that cannot be read names no server
		for line := range strings.Lines(string(raw)) {
			server, ok := strings.CutPrefix(strings.TrimSpace(line), "server:")
			if !ok {
				continue
			}
			if u, err := url.Parse(strings.Trim(strings.TrimSpace(server), `"'`)); err == nil && u.Hostname() != "" {
				port, _ := strconv.Atoi(cmp.Or(u.Port(), "443")) // 0 is permitted nowhere
				out = append(out, network.Permit{Name: "Kubernetes", Host: u.Hostname(), Port: port, How: network.TLS})
			}
		}
	}
	return out
}
