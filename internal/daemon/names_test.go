package daemon

import (
	"net"
	"slices"
	"testing"

	"claudeops/internal/config"
)

func TestAHostIsAskedWhereItListensAndUnderItsPublicName(t *testing.T) {
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = ln.Close() }()
	for public, want := range map[string][]string{
		"": {"192.0.2.7"}, "https://ops.example.org:8443": {"192.0.2.7", "ops.example.org"},
	} {
		h := &Host{Options: Options{Config: &config.Config{Listen: "192.0.2.7:8080", Edges: config.Edges{PublicURL: public}}}}
		if got := h.names(ln); !slices.Equal(got, want) {
			t.Errorf("public name %q: %v", public, got)
		}
	}
}
