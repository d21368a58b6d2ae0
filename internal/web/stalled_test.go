package web_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"claudeops/internal/ops"
	"claudeops/test/apitest"
)

// stalledWriter takes nothing any more once a first line of the session was written to it.
type stalledWriter struct {
	*httptest.ResponseRecorder
	writes  int
	stalled chan struct{} // closed when it takes nothing
	free    chan struct{} // closed when it may go on
}

func (w *stalledWriter) Write(b []byte) (int, error) {
	if w.writes++; w.writes == 2 {
		close(w.stalled)
		<-w.free
	}
	return w.ResponseRecorder.Write(b)
}

func TestAStalledReaderHoldsNobodyUp(t *testing.T) {
	s := newSite(t)
	_, ids := s.Chain(ops.NewCycle{}, "", "", apitest.Run{Tier: 1, Status: ops.SessionRunning, Lines: []string{said("line 1.")}})
	path := fmt.Sprintf("/sessions/%d/stream?after=0", ids[0])
	w := &stalledWriter{ResponseRecorder: httptest.NewRecorder(), stalled: make(chan struct{}), free: make(chan struct{})}
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	request.Host = "127.0.0.1"
	var stalling sync.WaitGroup
	stalling.Go(func() { s.handler.ServeHTTP(w, request) })
	<-w.stalled
	other := follow(t, served(t, s), path, "")
	s.Say(ids[0], said("line 2."))
	other.until("line 2.")
	s.End(ids[0], ops.OutcomeHealthy, ops.CycleHealthy, "fine")
	other.until("ended ")
	close(w.free)
	stalling.Wait()
	mustContain(t, w.Body.String(), "line 1.", "line 2.", "event: ended")
}
