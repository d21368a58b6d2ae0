// Package survey finds what runs on this machine, for a new configuration: containers, systemd units, programs that listen on a TCP port,
// and agent programs that are installed.
package survey

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"claudeops/internal/guard/broker"
	"claudeops/internal/ops"
)

// Service is something that runs here and can be watched.
type Service struct {
	Name      string
	Container string // its name, if it is a container
	Unit      string // its name, if it is a systemd unit
	Ports     []netip.AddrPort
	Answers   map[netip.AddrPort]int // the status of GET / on a port, where HTTP answers without an error
	Detail    string                 // where it was found, for people
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
		if status := s.Answers[p]; status > 0 {
			out = append(out, ops.ProbeSpec{Type: "http", URL: "http://" + dialable(p).String() + "/", ExpectStatus: []int{status}})
			continue
		}
		out = append(out, ops.ProbeSpec{Type: "tcp", Address: dialable(p).String()})
	}
	return out
}

// askTime is how long a port may take to answer.
const askTime = 2 * time.Second

// AskHTTP tries GET / on the ports of services that loopback reaches, so that a probe can expect what answers. Ports of databases and the
// like are left alone: they would log what they do not understand.
func AskHTTP(ctx context.Context, services []Service) {
	silent := []uint16{21, 22, 23, 25, 53, 110, 143, 465, 587, 993, 995, 3306, 5432, 5672, 6379, 6380, 11211, 27017}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	var asking sync.WaitGroup
	var mu sync.Mutex
	for i := range services {
		for _, p := range services[i].Ports {
			if !dialable(p).Addr().IsLoopback() || slices.Contains(silent, p.Port()) {
				continue
			}
			asking.Go(func() {
				status := statusOf(ctx, "http://"+dialable(p).String()+"/")
				mu.Lock()
				defer mu.Unlock()
				if services[i].Answers == nil {
					services[i].Answers = map[netip.AddrPort]int{}
				}
				services[i].Answers[p] = status
			})
		}
	}
	asking.Wait()
}

// statusOf is the status of an answer without an error; 0 without one.
func statusOf(ctx context.Context, address string) int {
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0
	}
	answer, err := client.Do(r)
	if err != nil {
		return 0
	}
	_ = answer.Body.Close()
	if answer.StatusCode < http.StatusOK || answer.StatusCode >= http.StatusBadRequest {
		return 0
	}
	return answer.StatusCode
}

// dialable is the address at which a listener can be reached from here.
func dialable(p netip.AddrPort) netip.AddrPort {
	addr := p.Addr().Unmap()
	if addr.IsUnspecified() {
		addr = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return netip.AddrPortFrom(addr, p.Port())
}

// Services joins what was found: a port belongs to the container or unit whose process listens on it, and is a service of its own if there
// is none. Names are unique.
func Services(containers []Container, units []Unit, listeners []Listener) []Service {
	var out []Service
	for _, c := range containers {
		out = append(out, Service{Name: c.Name, Container: c.Name, Ports: c.Ports, Detail: "container, image " + c.Image})
	}
	for _, u := range units {
		detail := "systemd unit " + u.Name
		if u.Failed {
			detail += ", failed"
		}
		out = append(out, Service{Name: strings.TrimSuffix(u.Name, ".service"), Unit: u.Name, Detail: detail})
	}
	programs := map[string]int{} // on how many ports each listens by itself
	for _, l := range listeners {
		if l.Unit == "" && l.Container == "" {
			programs[l.Program]++
		}
	}
	for _, l := range listeners {
		i := slices.IndexFunc(out, func(s Service) bool { return l.Unit != "" && s.Unit == l.Unit })
		if i < 0 && l.Container != "" {
			continue // the container was found, or is of another engine
		}
		if i < 0 {
			name := l.Program
			if programs[l.Program] > 1 {
				name = fmt.Sprintf("%s-%d", name, l.Address.Port())
			}
			i = len(out)
			out = append(out, Service{Name: name, Detail: "program " + l.Program})
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
	out := ops.Map(ports, func(p netip.AddrPort) string { return strconv.Itoa(int(p.Port())) })
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

// engineTime is how long an engine may take to answer.
const engineTime = 5 * time.Second

// Container is a running container.
type Container struct {
	Name, Image string
	Ports       []netip.AddrPort // that are published
}

// Containers asks the engine behind a Unix socket which containers run.
func Containers(ctx context.Context, socket string) (out []Container, err error) {
	ctx, cancel := context.WithTimeout(ctx, engineTime)
	defer cancel()
	var rows []struct {
		Names []string
		Image string
		Ports []struct {
			IP         string
			PublicPort uint16
			Type       string
		}
	}
	if _, err := broker.Ask(ctx, socket, &rows, nil, "containers", "json"); err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	for _, r := range rows {
		// Links to other containers are names too; they have a second slash.
		i := slices.IndexFunc(r.Names, func(n string) bool { return strings.Count(n, "/") == 1 })
		if i >= 0 {
			c := Container{Name: strings.TrimPrefix(r.Names[i], "/"), Image: r.Image}
			for _, p := range r.Ports {
				addr, err := netip.ParseAddr(p.IP)
				published := slices.ContainsFunc(c.Ports, func(o netip.AddrPort) bool { return o.Port() == p.PublicPort })
				if err == nil && p.Type == "tcp" && p.PublicPort > 0 && !published { // both IP versions are listed
					c.Ports = append(c.Ports, netip.AddrPortFrom(addr, p.PublicPort))
				}
			}
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b Container) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// versionTime is how long a program may take to tell its version.
const versionTime = 10 * time.Second

// Program is an installed agent CLI.
type Program struct {
	Name, Path string
	Version    string // empty if it does not tell
}

// agents are the programs that are looked for. Claude Ops has its own adapters for the first two.
func agents() []string {
	return []string{"claude", "codex", "gemini", "opencode", "goose", "aider", "qwen", "copilot"}
}

// Programs finds agent CLIs in the folders of path, a list such as PATH, and asks each for its version.
func Programs(ctx context.Context, path string) []Program {
	var out []Program
	for _, name := range agents() {
		for _, dir := range filepath.SplitList(path) {
			file := filepath.Join(dir, name)
			if info, err := os.Stat(file); err != nil || !filepath.IsAbs(dir) || info.IsDir() || info.Mode()&0o111 == 0 {
				continue
			}
			out = append(out, Program{Name: name, Path: file, Version: versionOf(ctx, file, path)})
			break
		}
	}
	return out
}

// Compiled once; read only.
var versionShape = regexp.MustCompile(`\b\d+\.\d+(?:\.\d+)?\b`)

// versionOf runs a program with --version, in an empty home folder so that it finds and keeps nothing.
func versionOf(ctx context.Context, file, path string) string {
	home, err := os.MkdirTemp("", "claudeops-version-*")
	if err != nil {
		return ""
	}
	defer func() { _ = os.RemoveAll(home) }()
	ctx, cancel := context.WithTimeout(ctx, versionTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, file, "--version") //nolint:gosec // an agent CLI on the operator's PATH
	cmd.Dir, cmd.WaitDelay = home, time.Second
	cmd.Env = []string{"HOME=" + home, "CODEX_HOME=" + home, "PATH=" + path, "DISABLE_AUTOUPDATER=1", "NO_COLOR=1"}
	text, err := cmd.Output()
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(text), "\n")
	return versionShape.FindString(first)
}

// unitTime is how long systemctl may take.
const unitTime = 5 * time.Second

// Unit is a service unit of systemd that runs or has failed.
type Unit struct {
	Name   string
	Failed bool
}

// Units asks systemctl, the path of a program, for the units of this machine. Those of the operating system itself are left out.
func Units(ctx context.Context, systemctl string) ([]Unit, error) {
	ctx, cancel := context.WithTimeout(ctx, unitTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, systemctl, "list-units", "--type=service", "--state=running,failed", "--plain", "--full", "--no-legend",
		"--no-pager")
	cmd.Env, cmd.WaitDelay = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C"}, time.Second
	text, err := cmd.Output()
	if err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) && len(failed.Stderr) > 0 {
			first, _, _ := strings.Cut(strings.TrimSpace(string(failed.Stderr)), "\n")
			return nil, fmt.Errorf("list units: %s", first)
		}
		return nil, fmt.Errorf("list units: %w", err)
	}
	var out []Unit
	for line := range strings.Lines(string(text)) {
		// UNIT LOAD ACTIVE SUB DESCRIPTION
		words := strings.Fields(line)
		if len(words) < 4 || !strings.HasSuffix(words[0], ".service") || ofTheSystem(words[0]) {
			continue
		}
		out = append(out, Unit{Name: words[0], Failed: words[2] == "failed"})
	}
	return out, nil
}

// ofTheSystem reports whether a unit is a part of the operating system that nobody watches by itself.
func ofTheSystem(unit string) bool {
	name := strings.TrimSuffix(unit, ".service")
	for _, prefix := range []string{
		"systemd-", "getty@", "serial-getty@", "user@", "user-runtime-dir@", "dbus", "modprobe@", "plymouth", "snapd",
	} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return slices.Contains([]string{
		"accounts-daemon", "avahi-daemon", "bluetooth", "claudeops", "console-setup", "containerd", "cron", "crond", "colord", "docker",
		"fwupd", "ifupdown", "irqbalance", "ModemManager", "multipathd", "networkd-dispatcher", "NetworkManager", "packagekit", "polkit",
		"polkitd", "power-profiles-daemon", "rtkit-daemon", "rsyslog", "thermald", "udisks2", "unattended-upgrades", "upower",
		"wpa_supplicant",
	}, name)
}
