package survey

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Listener is a TCP socket on which a program waits for connections.
type Listener struct {
	Address   netip.AddrPort
	Program   string
	Unit      string // of the process, if it has one
	Container string // id of its container, if it is in one
}

// Listeners reads the listening TCP sockets below proc, which is /proc. A socket whose process is hidden from this user is left out, and so
// is one on a port that the kernel chose, because it is another one after a restart. Each port of a program is listed once.
func Listeners(proc string) ([]Listener, error) {
	sockets := map[string]netip.AddrPort{} // by inode
	for _, name := range []string{"tcp", "tcp6"} {
		if err := readSockets(filepath.Join(proc, "net", name), sockets); err != nil && (name == "tcp" || !os.IsNotExist(err)) {
			return nil, fmt.Errorf("read listening ports: %w", err)
		}
	}
	first := ephemeral(proc)
	for inode, at := range sockets {
		if at.Port() >= first {
			delete(sockets, inode)
		}
	}
	processes, err := os.ReadDir(proc)
	if err != nil {
		return nil, fmt.Errorf("read processes: %w", err)
	}
	var out []Listener
	for _, p := range processes {
		if _, err := strconv.Atoi(p.Name()); err == nil {
			out = append(out, listenersOf(filepath.Join(proc, p.Name()), sockets)...)
		}
	}
	return onePerPort(out), nil
}

// listenersOf are the listening sockets of one process. A process may end while it is read.
func listenersOf(dir string, sockets map[string]netip.AddrPort) (out []Listener) {
	files, err := os.ReadDir(filepath.Join(dir, "fd"))
	if err != nil {
		return nil
	}
	for _, f := range files {
		target, err := os.Readlink(filepath.Join(dir, "fd", f.Name()))
		if err != nil {
			continue
		}
		inode, ok := strings.CutPrefix(target, "socket:[")
		at, listens := sockets[strings.TrimSuffix(inode, "]")]
		if !ok || !listens {
			continue
		}
		name, err := os.ReadFile(filepath.Join(dir, "comm")) //nolint:gosec // below /proc
		program := strings.TrimSpace(string(name))
		if err != nil || program == "" || program == "docker-proxy" || program == "claudeops" {
			continue // docker-proxy listens for a container, which is found by itself
		}
		unit, container := homeOf(dir)
		out = append(out, Listener{Address: at, Program: program, Unit: unit, Container: container})
	}
	return out
}

// Compiled once; read only.
var (
	unitPart      = regexp.MustCompile(`/([^/]+\.service)(?:/|$)`)
	containerPart = regexp.MustCompile(`(?:^|[/-])([0-9a-f]{64})(?:\.scope)?(?:/|$)`)
)

// homeOf reads the systemd unit and the container of a process from its cgroup.
func homeOf(dir string) (unit, container string) {
	text, err := os.ReadFile(filepath.Join(dir, "cgroup")) //nolint:gosec // below /proc
	if err != nil {
		return "", ""
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if m := containerPart.FindStringSubmatch(line); m != nil {
			container = m[1]
		}
		if m := unitPart.FindStringSubmatch(line); m != nil {
			unit = m[1]
		}
	}
	return unit, container
}

// readSockets adds the listening sockets of a table of the kernel, by inode.
func readSockets(path string, into map[string]netip.AddrPort) error {
	f, err := os.Open(path) //nolint:gosec // below /proc
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return parseSockets(f, into)
}

func parseSockets(r io.Reader, into map[string]netip.AddrPort) error {
	const listening = "0A"
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		// sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode
		words := strings.Fields(lines.Text())
		if len(words) < 10 || words[3] != listening {
			continue
		}
		if at, ok := parseAddress(words[1]); ok {
			into[words[9]] = at
		}
	}
	return lines.Err()
}

// parseAddress reads ADDRESS:PORT in hexadecimal; the address is in words of the machine's byte order.
func parseAddress(text string) (netip.AddrPort, bool) {
	addr, port, ok := strings.Cut(text, ":")
	raw, err := hex.DecodeString(addr)
	n, err2 := strconv.ParseUint(port, 16, 16)
	if !ok || err != nil || err2 != nil || len(raw)%4 != 0 {
		return netip.AddrPort{}, false
	}
	for i := 0; i < len(raw); i += 4 {
		binary.BigEndian.PutUint32(raw[i:], binary.NativeEndian.Uint32(raw[i:]))
	}
	at, ok := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(at, uint16(n)), ok
}

// ephemeral is the first port that the kernel gives to programs that do not ask for one.
func ephemeral(proc string) uint16 {
	const usual = 32768
	text, err := os.ReadFile(filepath.Join(proc, "sys/net/ipv4/ip_local_port_range")) //nolint:gosec // below /proc
	words := strings.Fields(string(text))
	if err != nil || len(words) == 0 {
		return usual
	}
	n, err := strconv.ParseUint(words[0], 10, 16)
	if err != nil {
		return usual
	}
	return uint16(n)
}

// onePerPort keeps one listener per program and port: a program may listen on both IP versions and in several processes.
func onePerPort(all []Listener) (out []Listener) {
	slices.SortFunc(all, func(a, b Listener) int {
		// An address that everybody can reach comes before one of loopback, and IPv4 before IPv6.
		return cmp.Or(cmp.Compare(a.Address.Port(), b.Address.Port()), cmp.Compare(a.Program, b.Program),
			a.Address.Addr().Unmap().Compare(b.Address.Addr().Unmap()))
	})
	for _, l := range all {
		if n := len(out); n == 0 || out[n-1].Address.Port() != l.Address.Port() || out[n-1].Program != l.Program {
			out = append(out, l)
		}
	}
	return out
}
