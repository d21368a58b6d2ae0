//go:build pictures

package browsertest

import (
	"strings"
	"testing"
)

// TestPicturesOfTheNewPages photographs the pages of services, approvals, hosts and guard, and the API documentation.
func TestPicturesOfTheNewPages(t *testing.T) {
	f := newFixture(t)
	withRecords(t, f)
	b := open(t, serve(t, f.store, withServices).base())
	for _, s := range append(newPages(), sight{name: "services", path: "/services"}, sight{name: "events", path: "/events"},
		sight{name: "memory", path: "/memory"}, sight{name: "silences", path: "/silences"}, sight{name: "costs", path: "/costs"}) {
		t.Run(s.name, func(t *testing.T) {
			defer b.on(t)()
			b.inAllLights("new-"+strings.ReplaceAll(s.name, " ", "-"), s)
		})
	}
}
