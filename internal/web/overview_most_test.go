package web

import (
	"fmt"
	"testing"

	"claudeops/internal/api"
	"claudeops/internal/ops"
)

func TestTheOverviewListsAtMost200Services(t *testing.T) {
	var services []serviceEntry
	add := func(environment string, state ops.Health, count int) {
		for i := range count {
			services = append(services, entryOf(api.ServiceState{Environment: environment, Name: fmt.Sprintf("service-%d", i), State: string(state)}))
		}
	}
	add("env0", ops.Down, 70)
	for e := range 20 {
		add(fmt.Sprintf("env%d", e), ops.Healthy, 100)
	}
	var v overviewView
	v.addServices(services)
	listed, more := len(v.Failing), v.MoreFailing
	for _, g := range v.Groups {
		listed, more = listed+len(g.Services), more+g.More()
	}
	if listed != overviewMost || more != len(services)-listed || len(v.Failing) != overviewServices || len(v.Groups) != 20 {
		t.Errorf("%d services are listed, %d are said to be more, %d of those failing, %d groups", listed, more, len(v.Failing), len(v.Groups))
	}
}
