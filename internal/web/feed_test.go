package web

import (
	"fmt"
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

func feedServer(j *apitest.Journal) *server {
	o := Options{Options: api.Options{Store: j.Store, Clock: j.Clock, Logger: slog.New(slog.DiscardHandler)}}
	s := &server{
		Options: o, assets: loadAssets(), counters: &counterCache{store: j.Store}, feeds: newFeeds(), markdown: newMarkdown(),
		broadcaster: &broadcaster{},
	}
	s.pages = loadPages(s.assets, s.Clock, s.prose)
	return s
}

// A page that was read a moment before its session ended may know the counters of the end already: they are shared for a moment.
func TestTheEndIsSentToAPageThatKnowsItsCounters(t *testing.T) {
	j := apitest.Open(t, time.Date(2026, 11, 14, 13, 41, 0, 0, time.UTC))
	_, ids := j.Chain(ops.NewCycle{}, ops.CycleCancelled, "", apitest.Run{Tier: 1, Status: ops.SessionCancelled})
	s := feedServer(j)
	counts, err := j.Store.Reports.PageState(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sent := httptest.NewRecorder()
	out, end := s.openStream(sent, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil), feedEvery)
	defer end()
	over, err := s.sendNews(out, s.feeds.join(ids[0]), &position{noLines, revision(counts)})
	if err != nil || !over || !strings.Contains(sent.Body.String(), `id="session-head"`) {
		t.Errorf("over %v, %v; sent %q", over, err, sent.Body.String())
	}
}

func TestThoseWhoAreBehindShareWhatOneOfThemReads(t *testing.T) {
	j := apitest.Open(t, time.Date(2026, 11, 14, 13, 41, 0, 0, time.UTC))
	_, ids := j.Chain(ops.NewCycle{}, "", "", apitest.Run{Tier: 1, Status: ops.SessionRunning})
	for n := range 300 {
		j.Say(ids[0], fmt.Sprintf("line %d", n))
	}
	s := feedServer(j)
	f := s.feeds.join(ids[0])
	if err := f.advance(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	// Readers that began at different lines need the same pieces from the next round line on.
	first := map[int64]*byte{}
	for _, begin := range []int64{0, 7, 58} {
		seen := begin
		for seen < 300 {
			p, err := f.since(t.Context(), s, seen)
			if err != nil || p.last <= seen || p.last%feedLines != 0 {
				t.Fatalf("behind %d come %d to %d: %v", seen, p.first, p.last, err)
			}
			if at := first[p.first]; at != nil && at != &p.data[0] {
				t.Errorf("what follows line %d was made twice", p.first)
			}
			first[p.first], seen = &p.data[0], p.last
		}
	}
	if len(first) != 5 { // three beginnings, and the pieces behind 100 and 200
		t.Errorf("%d pieces were made", len(first))
	}
}
