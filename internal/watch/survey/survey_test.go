package survey

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"claudeops/internal/ops"
	"claudeops/internal/watch/probe"
	"claudeops/test/dockertest"
)

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil { //nolint:gosec // some are programs
		t.Fatal(err)
	}
	return path
}

func TestContainersOfARealEngine(t *testing.T) {
	d := dockertest.Shared(t)
	d.Container(t, "grafana")
	d.Container(t, "stopped")
	d.Docker(t, "stop", "-t", "1", "stopped")
	got, err := Containers(t.Context(), d.Socket)
	if err != nil || len(got) != 1 || got[0].Name != "grafana" || got[0].Image != dockertest.Image {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := Containers(t.Context(), filepath.Join(t.TempDir(), "none.sock")); err == nil {
		t.Error("no engine, no error")
	}
}

func TestUnitsOfTheSystemAreLeftOut(t *testing.T) {
	systemctl := write(t, t.TempDir(), "systemctl", `#!/bin/sh
cat <<'END'
cron.service             loaded active running Regular background program processing daemon
dbus.service             loaded active running D-Bus System Message Bus
nginx.service            loaded active running A high performance web server
postgresql@15-main.service loaded failed failed PostgreSQL Cluster 15-main
systemd-journald.service loaded active running Journal Service
END
`)
	got, err := Units(t.Context(), systemctl)
	want := []Unit{{Name: "nginx.service"}, {Name: "postgresql@15-main.service", Failed: true}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	broken := write(t, t.TempDir(), "systemctl", "#!/bin/sh\necho 'System has not been booted with systemd as init system' >&2\nexit 1\n")
	if _, err := Units(t.Context(), broken); err == nil || !strings.Contains(err.Error(), "not been booted with systemd") {
		t.Errorf("%v", err)
	}
}

// The test program itself listens, on both versions of IP.
func TestListenersOfThisMachine(t *testing.T) {
	var port int
	for p := 20000; p < 20200 && port == 0; p++ {
		l, err := net.ListenTCP("tcp", &net.TCPAddr{Port: p})
		if err == nil {
			port = p
			t.Cleanup(func() { _ = l.Close() })
		}
	}
	chosen, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = chosen.Close() }()
	all, err := Listeners("/proc")
	must(t, err)
	comm, err := os.ReadFile("/proc/self/comm")
	must(t, err)
	n := 0
	for _, l := range all {
		switch int(l.Address.Port()) {
		case port:
			n++
			if l.Program != strings.TrimSpace(string(comm)) || !l.Address.Addr().IsUnspecified() {
				t.Errorf("%+v", l)
			}
		case chosen.Addr().(*net.TCPAddr).Port:
			t.Errorf("a port that the kernel chose: %+v", l)
		}
	}
	if n != 1 {
		t.Errorf("the port %d is listed %d times in %+v", port, n, all)
	}
	if _, err := Listeners(t.TempDir()); err == nil {
		t.Error("no /proc, no error")
	}
}

func TestAddressesOfTheKernel(t *testing.T) {
	for text, want := range map[string]string{
		"0100007F:1538":                         "127.0.0.1:5432",
		"00000000:0050":                         "0.0.0.0:80",
		"00000000000000000000000001000000:1F90": "[::1]:8080",
		"00000000000000000000000000000000:01BB": "[::]:443",
		"0000000000000000FFFF00000100007F:0016": "[::ffff:127.0.0.1]:22",
	} {
		if got, ok := parseAddress(text); !ok || got.String() != want {
			t.Errorf("%s is %s", text, got)
		}
	}
	for _, text := range []string{"", "0100007F", "zz:1", "0100007F:10000", "01:1"} {
		if got, ok := parseAddress(text); ok {
			t.Errorf("%s is %s", text, got)
		}
	}
}

func TestAProcessBelongsToItsUnitOrContainer(t *testing.T) {
	id := strings.Repeat("0af1", 16)
	for text, want := range map[string][2]string{
		"0::/system.slice/nginx.service\n":                       {"nginx.service", ""},
		"0::/system.slice/docker-" + id + ".scope\n":             {"", id},
		"12:pids:/docker/" + id + "\n0::/docker/" + id + "\n":    {"", id},
		"0::/system.slice/postgresql@15-main.service/supervised": {"postgresql@15-main.service", ""},
		"0::/user.slice/user-1000.slice/session-2.scope\n":       {"", ""},
	} {
		dir := t.TempDir()
		write(t, dir, "cgroup", text)
		if unit, container := homeOf(dir); unit != want[0] || container != want[1] {
			t.Errorf("%q is of %q, %q", text, unit, container)
		}
	}
}

func TestAPortBelongsToWhatListensOnIt(t *testing.T) {
	at := netip.MustParseAddrPort
	got := Services(
		[]Container{{Name: "web", Image: "nginx:1", Ports: []netip.AddrPort{at("[::]:8080")}}},
		[]Unit{{Name: "nginx.service"}, {Name: "web.service", Failed: true}},
		[]Listener{
			{Address: at("0.0.0.0:80"), Program: "nginx", Unit: "nginx.service"},
			{Address: at("[::]:443"), Program: "nginx", Unit: "nginx.service"},
			{Address: at("127.0.0.1:6379"), Program: "redis-server"},
			{Address: at("127.0.0.1:6380"), Program: "redis-server"},
			{Address: at("10.0.0.5:9000"), Program: "web"},
			{Address: at("0.0.0.0:7000"), Program: "hostnet", Container: "c1"},
			{Address: at("127.0.0.1:8000"), Program: "my app: x"},
		})
	type row struct {
		name, detail string
		probes       string
	}
	var rows []row
	for _, s := range got {
		var probes []string
		for _, p := range s.Probes() {
			p.Service = s.Name
			if err := probe.Validate(p); err != nil {
				t.Errorf("%s: %v", s.Name, err)
			}
			probes = append(probes, p.Type+" "+p.Container+p.Unit+p.Address+p.URL)
		}
		rows = append(rows, row{s.Name, s.Detail, strings.Join(probes, "; ")})
	}
	want := []row{
		{"web", "container, image nginx:1, port 8080", "container web; tcp 127.0.0.1:8080"},
		{"nginx", "systemd unit nginx.service, ports 80, 443", "systemd nginx.service; tcp 127.0.0.1:80; tcp 127.0.0.1:443"},
		{"web-unit", "systemd unit web.service, failed", "systemd web.service"},
		{"redis-server-6379", "program redis-server, port 6379", "tcp 127.0.0.1:6379"},
		{"redis-server-6380", "program redis-server, port 6380", "tcp 127.0.0.1:6380"},
		{"web-port", "program web, port 9000", "tcp 10.0.0.5:9000"},
		{"my-app--x", "program my app: x, port 8000", "tcp 127.0.0.1:8000"},
	}
	if !reflect.DeepEqual(rows, want) {
		t.Errorf("got\n%+v\nwant\n%+v", rows, want)
	}
	var none []ops.ProbeSpec
	if p := (Service{}).Probes(); !reflect.DeepEqual(p, none) {
		t.Errorf("%+v", p)
	}
}

func TestAPortThatSpeaksHTTPIsProbedByHTTP(t *testing.T) {
	answers := map[string]int{"ok": http.StatusNoContent, "moved": http.StatusFound, "locked": http.StatusUnauthorized}
	var services []Service
	for name, status := range answers {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "/login")
			w.WriteHeader(status)
		}))
		defer server.Close()
		services = append(services, Service{Name: name, Ports: []netip.AddrPort{netip.MustParseAddrPort(server.Listener.Addr().String())}})
	}
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = mute.Close() }()
	go func() {
		for {
			c, err := mute.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("220 mail\r\n"))
			_ = c.Close()
		}
	}()
	services = append(services, Service{Name: "mail", Ports: []netip.AddrPort{netip.MustParseAddrPort(mute.Addr().String())}})
	AskHTTP(t.Context(), services)
	for _, s := range services {
		p := s.Probes()[0]
		p.Service = s.Name
		if err := probe.Validate(p); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
		if status := answers[s.Name]; status > 0 && status < 400 {
			if p.Type != "http" || !reflect.DeepEqual(p.ExpectStatus, []int{status}) || p.URL != "http://"+s.Ports[0].String()+"/" {
				t.Errorf("%s: %+v", s.Name, p)
			}
		} else if p.Type != "tcp" || p.Address != s.Ports[0].String() {
			t.Errorf("%s: %+v", s.Name, p)
		}
	}
}

func TestProgramsAndTheirVersions(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	write(t, first, "claude", "#!/bin/sh\ntest -z \"$(ls -A \"$HOME\")\" && echo '2.1.325 (Claude Code)'\n")
	write(t, second, "claude", "#!/bin/sh\necho 1.0.0\n")
	write(t, second, "codex", "#!/bin/sh\necho 'codex-cli 0.166.0'\n")
	write(t, second, "gemini", "#!/bin/sh\nexit 1\n")
	must(t, os.Chmod(write(t, first, "goose", "not a program"), 0o600))
	got := Programs(t.Context(), strings.Join([]string{first, second, "relative", "/bin"}, ":"))
	want := []Program{
		{"claude", filepath.Join(first, "claude"), "2.1.325"}, {"codex", filepath.Join(second, "codex"), "0.166.0"}, {"gemini", filepath.Join(second, "gemini"), ""},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
