package browsertest

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestThePublishedIncidentsCanBeRead opens the page of the benchmark as it is published: it unpacks its results by itself.
func TestThePublishedIncidentsCanBeRead(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("/incidents.html", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, "../../docs/incidents.html") })
	mux.HandleFunc("/favicon.ico", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	b := open(t, server.URL)
	b.lookAt(sight{path: "/incidents.html"})
	b.sees("Choose a cell to read what happened", "plain-loop")
	matrix := func() string { return eval[string](b, `document.querySelector('#matrix').innerText`) }
	whole := matrix()

	b.click("#matrix button.cell")
	b.wait("the run is shown", `document.querySelector('#run').innerText.includes('It says:')`)
	if found := b.axe(allRules); len(found) > 0 {
		t.Error(found)
	}
	choose := func(list, option string) {
		eval[bool](b, `(() => { const s = document.querySelector('`+list+`'); s.value = '`+option+`'; s.dispatchEvent(new Event('change')); return true; })()`)
	}
	choose("#contender", "plain-loop")
	b.wait("the plain loop does harm", `document.querySelector('#matrix').innerText.includes('✗ harm')`)
	if matrix() == whole {
		t.Error("the table is the same for another contender")
	}
	choose("#model", "expert")
	b.sees("The model expert with every contender")
}
