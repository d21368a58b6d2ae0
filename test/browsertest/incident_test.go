package browsertest

import (
	"testing"
)

func TestTheStoryOfAnIncidentIsAccessible(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	j.asks("jellyfin answers with HTTP 502")
	lookAtAll(t, serve(t, j.store).base(), []sight{
		{name: "incident that waits for a human", path: "/incidents/1"},
		{name: "run again", path: "/incidents/1", then: `document.querySelector('#run-1').showModal()`},
		{name: "open incidents", path: "/incidents?tab=open"},
	})
}
