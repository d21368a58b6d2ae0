package wall

import (
	"errors"
	"os"
	"path/filepath"

	"claudeops/internal/guard/wall/confine"
	"claudeops/internal/ops"
)

// Net is the network of a session, which the supervisor opened for it.
type Net struct {
	Dir   string           // of its socket and its files; empty without a namespace
	Relay *confine.Network // nil without a namespace
	Ports []int            // the only ones, without a namespace
	Trial *confine.NetworkTrial
}

func (n *Net) folder() string {
	if n == nil {
		return ""
	}
	return n.Dir
}

func (n *Net) ports() []int {
	if n == nil || n.Relay != nil {
		return nil
	}
	return n.Ports
}

// arguments leave the session what it takes to make a network namespace and set it up. The walls take the capabilities away again.
func (n *Net) arguments() []string {
	if n == nil || n.Relay == nil {
		return nil
	}
	var out []string
	for _, c := range []string{"CAP_SYS_ADMIN", "CAP_NET_ADMIN", "CAP_NET_BIND_SERVICE"} {
		out = append(out, "--cap-add", c)
	}
	return out
}

// fillNetwork mounts the files that say how names are found, and hides the sockets of programs that would find them outside: a
// path-named socket is reached from every network namespace.
func (s *Sandbox) fillNetwork(p *profile, n *Net) error {
	if n == nil || n.Relay == nil {
		return nil
	}
	for _, path := range []string{"/run/systemd/resolve", "/run/nscd", "/run/avahi-daemon", "/run/dbus", "/run/sssd", "/var/lib/sss/pipes"} {
		if err := p.hide(path); err != nil {
			return err
		}
	}
	for _, name := range []string{"resolv.conf", "nsswitch.conf"} {
		at, err := realPath(filepath.Join("/etc", name))
		if errors.Is(err, os.ErrNotExist) {
			continue // programs then ask the resolver on loopback, which is ours
		}
		if err != nil {
			return err
		}
		p.mounts[at], p.from[at] = readOnly, filepath.Join(n.Dir, name)
	}
	return nil
}

// Namespaced reports whether a session of the tier can have a network namespace of its own.
func (s *Sandbox) Namespaced(tier ops.Tier) bool { return s.c.Confine && s.netError(tier) == nil }

// netError is why a session cannot have one; nil when it can. It is tried once for each user that agents run as.
func (s *Sandbox) netError(tier ops.Tier) error {
	if !s.Mounts(tier) {
		return &LayerError{Layer: LayerBubblewrap, Why: "bubblewrap does not work here", Fix: "see the wall bubblewrap"}
	}
	return s.tried(s.net, tier, func(who *person, bwrap string) error {
		n := &Net{Relay: &confine.Network{Socket: "/nowhere", Ports: []int{1}}}
		argv, err := confine.Arguments(s.c.Relay[0], confine.Plan{Network: n.Relay}, "/bin/sh", []string{"sh", "-c", ":"})
		if err != nil {
			return err
		}
		return s.try(who, bwrap, append(s.base(), n.arguments()...), argv...)
	})
}

// portsHeld reports whether the second-best wall can be had: only TCP, and only to the ports of the supervisor.
func portsHeld() bool {
	return confine.LandlockVersion() >= confine.PortsVersion && confine.SeccompAvailable()
}

// LayerNetwork is the name of the wall around the network.
const LayerNetwork = "network"

// CheckNetwork tells why a session of the tier can have no wall around its network; nil when it can.
func (s *Sandbox) CheckNetwork(tier ops.Tier) error {
	if s.Namespaced(tier) || portsHeld() {
		return nil
	}
	return &LayerError{
		Layer: LayerNetwork, Why: "this machine has neither network namespaces for agents nor a Landlock that knows ports",
		Fix: "use Linux 6.7 or newer or let bubblewrap work, or set sandbox.network: open",
	}
}

func (s *Sandbox) reportNetwork(tier ops.Tier) Row {
	row := Row{Wall: LayerNetwork, State: "on"}
	switch {
	case !s.c.Confine:
		row.State, row.Detail = "off", "sandbox.mode is off"
	case !s.c.Network:
		row.State, row.Open = "open", true
		row.Detail, row.Fix = "sessions reach every address that this machine reaches", "set sandbox.network: services"
	case s.Namespaced(tier):
		row.Detail = "a network of its own for each session, from which only listed hosts are reached, through the supervisor"
	case portsHeld():
		row.Detail = "ports, not addresses: without network namespaces a session opens TCP connections only, and only to the ports of " +
			"the supervisor's proxies, but to these ports on every host"
	default:
		var layer *LayerError
		errors.As(s.CheckNetwork(tier), &layer)
		row.State, row.Missing, row.Detail, row.Fix = "missing", true, layer.Why, layer.Fix
	}
	return row
}
