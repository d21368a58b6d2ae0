package main_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/agenttest"
)

// breakable is a service that answers 502 while a file exists.
func breakable(t *testing.T) (url, broken string) {
	t.Helper()
	broken = filepath.Join(t.TempDir(), "broken")
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if _, err := os.Stat(broken); err == nil {
			w.WriteHeader(http.StatusBadGateway)
		}
	}))
	t.Cleanup(service.Close)
	return service.URL, broken
}

func breakIt(t *testing.T, broken string) {
	t.Helper()
	must(t, os.WriteFile(broken, nil, 0o600))
}

// repairing is a play that repairs the service before it says so.
func repairing(broken string) agenttest.Play {
	p := agenttest.Claims(0.1, "web")
	p.Steps = append([]agenttest.Step{{Run: "rm -f " + broken}}, p.Steps...)
	return p
}

func (b *box) openIncidents() (out []ops.Incident) {
	b.read(func(s *store.Store) {
		var err error
		if out, err = s.People.Incidents(b.t.Context(), store.IncidentFilter{Open: true}); err != nil {
			b.t.Error(err)
		}
	})
	return out
}

func (b *box) toldOf(kind ops.NoticeKind) (out []ops.Notice) {
	return slices.DeleteFunc(b.notices(), func(n ops.Notice) bool { return n.Kind != kind })
}
