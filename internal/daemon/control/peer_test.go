package control_test

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"claudeops/internal/daemon/control"
)

// connected returns both ends of a connection.
func connected(t *testing.T, network, address string) (client, server net.Conn) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), network, address)
	if err != nil {
		t.Skipf("%s %s: %v", network, address, err)
	}
	client, err = (&net.Dialer{}).DialContext(t.Context(), network, l.Addr().String())
	must(t, err)
	server, err = l.Accept()
	must(t, errors.Join(err, l.Close()))
	t.Cleanup(func() { _ = client.Close(); _ = server.Close() })
	return client, server
}

func addrPort(t *testing.T, a net.Addr) netip.AddrPort {
	t.Helper()
	out, err := netip.ParseAddrPort(a.String())
	must(t, err)
	return out
}

func TestTheSocketTableNamesTheUser(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		client, server := connected(t, "tcp", address)
		local, remote := addrPort(t, server.LocalAddr()), addrPort(t, server.RemoteAddr())
		got, err := control.Rules{}.OfTCP(local, remote)
		if err != nil || got.Refusal != "" || got.User == "" {
			t.Errorf("%s: our own connection: %+v, %v", address, got, err)
		}
		got, err = control.Rules{AgentUIDs: []int{os.Getuid()}}.OfTCP(local, remote)
		if err != nil || !strings.Contains(got.Refusal, "user of the agents") {
			t.Errorf("%s: a connection of an agent's user: %+v, %v", address, got, err)
		}
		_ = client.Close()
		if got, err = (control.Rules{AgentUIDs: []int{os.Getuid()}}).OfTCP(local, netip.AddrPortFrom(remote.Addr(), 1)); err != nil || got.Refusal != "" {
			t.Errorf("%s: a connection that is not there: %+v, %v", address, got, err)
		}
	}
}

func TestTheKernelNamesTheCallerOfASocket(t *testing.T) {
	_, server := connected(t, "unix", filepath.Join(t.TempDir(), "s"))
	socket, ok := server.(*net.UnixConn)
	if !ok {
		t.Fatalf("%T", server)
	}
	got, err := control.Rules{}.OfUnix(socket)
	if err != nil || got.Refusal != "" || got.PID != os.Getpid() || got.User == "" {
		t.Errorf("ourselves: %+v, %v", got, err)
	}
	got, err = control.Rules{AgentUIDs: []int{os.Getuid()}}.OfUnix(socket)
	if err != nil || got.Refusal == "" {
		t.Errorf("an agent's user: %+v, %v", got, err)
	}
}
