package web

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"claudeops/internal/api"
	"claudeops/internal/ops"
	"claudeops/test/apitest"
)

func feedSite(j *apitest.Journal) *site {
	return newSite(Options{Hub: NewHub(), Options: api.Options{Store: j.Store, Clock: j.Clock, Logger: slog.New(slog.DiscardHandler)}})
}

// A page that was read a moment before its session ended may know the counters of the end already: they are shared for a moment.
func TestTheEndIsSentToAPageThatKnowsItsCounters(t *testing.T) {
	j := apitest.Open(t, time.Date(2026, 11, 14, 13, 41, 0, 0, time.UTC))
	_, ids := j.Chain(ops.NewCycle{}, ops.CycleCancelled, "", apitest.Run{Tier: 1, Status: ops.SessionCancelled})
	s := &sessions{feedSite(j)}
	counts, err := j.Store.Reports.PageState(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sent := httptest.NewRecorder()
	f := &feed{sessions: s, id: ids[0], at: position{noLines, revision(counts)}}
	f.out = s.openStream(sent, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil), feedEvery)
	defer f.out.leave()
	over, err := f.sendNews(t.Context())
	if err != nil || !over || !strings.Contains(sent.Body.String(), `id="session-head"`) {
		t.Errorf("over %v, %v; sent %q", over, err, sent.Body.String())
	}
}
