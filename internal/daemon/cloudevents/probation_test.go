package cloudevents

import (
	"strings"
	"testing"
	"time"
)

func TestARepairThatDidNotHoldIsSentAndItsEndAgain(t *testing.T) {
	j, r := open(t), newReceiver(t, nil)
	wake, _ := running(t, j, nil, Target{Name: "a", URL: r.URL})
	j.Repair("web")
	wake()
	r.until(t, 5)
	j.Now = j.Now.Add(9 * time.Minute)
	j.Relapse("web")
	wake()
	r.until(t, 8)
	j.Now = j.Now.Add(time.Minute)
	if _, err := j.Store.ServiceRecovered(t.Context(), "default", "web", j.Now.Add(-2*time.Minute), "web recovered", j.Now); err != nil {
		t.Fatal(err)
	}
	wake()
	r.until(t, 9)
	ids := r.ids()
	want := []string{
		"cycle-1-created", "cycle-1-started", "cycle-1-ended", "incident-1-opened", "incident-1-resolved", "cycle-1-refuted", "incident-1-reopened-",
		"incident-1-called-", "incident-1-resolved-",
	}
	for i, id := range want {
		if i >= len(ids) || !strings.HasPrefix(ids[i], id) {
			t.Fatalf("sent %v, want %v", ids, want)
		}
	}
}
