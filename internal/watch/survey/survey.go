// Package survey finds what runs on this machine: containers, systemd units, and programs that listen on a TCP port. It also finds
// installed agent programs. It only reads: a new configuration is proposed from it.
package survey

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"claudeops/internal/ops"
)

// Service is something that runs here and can be watched.
type Service struct {
	Name      string
	Container string // its name, if it is a container
	Unit      string // its name, if it is a systemd unit
	Ports     []netip.AddrPort
	Detail    string // where it was found, for people
}

// Probes are the checks that fit the service.
func (s Service) Probes() []ops.ProbeSpec {
	var out []ops.ProbeSpec
	switch {
	case s.Container != "":
		out = append(out, ops.ProbeSpec{Type: "container", Container: s.Container})
	case s.Unit != "":
		out = append(out, ops.ProbeSpec{Type: "systemd", Unit: s.Unit})
	}
	for _, p := range s.Ports {
		out = append(out, ops.ProbeSpec{Type: "tcp", Address: dialable(p)})
	}
	return out
}

// dialable is the address at which a listener can be reached from here.
func dialable(p netip.AddrPort) string {
	addr := p.Addr().Unmap()
	if addr.IsUnspecified() {
		addr = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return net.JoinHostPort(addr.String(), strconv.Itoa(int(p.Port())))
}

// Services joins what was found: a port belongs to the container or unit whose process listens on it. Names are unique.
func Services(containers []Container, units []Unit, listeners []Listener) []Service {
	var out []Service
	for _, c := range containers {
		out = append(out, Service{Name: c.Name, Container: c.Name, Detail: "container, image " + c.Image})
	}
	for _, u := range units {
		detail := "systemd unit " + u.Name
		if u.Failed {
			detail += ", failed"
		}
		out = append(out, Service{Name: strings.TrimSuffix(u.Name, ".service"), Unit: u.Name, Detail: detail})
	}
	// A program that listens on several ports is one service.
	programs := map[string]int{}
	for _, l := range listeners {
		i := slices.IndexFunc(out, func(s Service) bool { return l.Unit != "" && s.Unit == l.Unit })
		if i < 0 && l.Container != "" {
			continue // the container was found, or is of another engine
		}
		if i < 0 {
			known := false
			if i, known = programs[l.Program]; !known {
				i = len(out)
				programs[l.Program] = i
				out = append(out, Service{Name: l.Program, Detail: "program " + l.Program})
			}
		}
		out[i].Ports = append(out[i].Ports, l.Address)
	}
	for i := range out {
		if len(out[i].Ports) > 0 {
			out[i].Detail += ", " + portList(out[i].Ports)
		}
	}
	return unique(out)
}

func portList(ports []netip.AddrPort) string {
	var out []string
	for _, p := range ports {
		out = append(out, strconv.Itoa(int(p.Port())))
	}
	if len(out) == 1 {
		return "port " + out[0]
	}
	return "ports " + strings.Join(out, ", ")
}

// unique gives each service a name that the configuration accepts and that no other service has.
func unique(services []Service) []Service {
	seen := map[string]bool{}
	for i := range services {
		name := plain(services[i].Name)
		kind := "port"
		switch s := services[i]; {
		case s.Container != "":
			kind = "container"
		case s.Unit != "":
			kind = "unit"
		}
		if seen[name] {
			name += "-" + kind
		}
		for n, first := 2, name; seen[name]; n++ {
			name = fmt.Sprintf("%s-%d", first, n)
		}
		seen[name], services[i].Name = true, name
	}
	slices.SortStableFunc(services, func(a, b Service) int { return cmp.Compare(rank(a), rank(b)) })
	return services
}

// rank puts containers first, then units, then programs.
func rank(s Service) int {
	switch {
	case s.Container != "":
		return 0
	case s.Unit != "":
		return 1
	}
	return 2
}

// plain is a name without blanks and control characters: programs may call themselves anything.
func plain(name string) string {
	name = strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("-_.@", r) {
			return r
		}
		return '-'
	}, name)
	return cmp.Or(strings.Trim(name, "-"), "service")
}
