package browsertest

import (
	"testing"
	"time"

	"claudeops/internal/ops"
)

func TestSilencesAndNotificationsAreAccessible(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	_, err := j.store.Watch.AddSilence(t.Context(), ops.Silence{
		Service: "media-*", Group: "home", Reason: "the disk is replaced", Author: "alice",
		Until: time.Now().Add(time.Hour),
	})
	must(t, err)
	_, err = j.store.People.AddNotice(t.Context(), ops.Notice{
		Kind: "opened", Level: ops.LevelCritical, Title: "jellyfin is down", Body: "HTTP 502", Status: ops.NoticeDead, Attempts: 6,
		Error: "no route to host", Service: "jellyfin",
	})
	must(t, err)
	lookAtAll(t, serve(t, j.store).base(), []sight{
		{name: "silences", path: "/silences"},
		{name: "silence dialog", path: "/silences", then: `document.querySelector('#add-silence').showModal()`},
		{name: "notifications", path: "/notifications", then: `for (const d of document.querySelectorAll('details')) d.open = true`},
		{name: "no notifications", path: "/notifications?status=pending", again: true},
	})
}
