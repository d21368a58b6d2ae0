package web

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"html/template"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"claudeops/internal/access"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

//go:embed templates
var templateFiles embed.FS

// pageSet holds one template per page, parsed when the page is first shown.
type pageSet map[string]func() *template.Template

// page is what the shell around every page shows.
type page struct {
	Title string
	Nav   string // the entry of the navigation that is marked
	// Stream is the address of the events this page follows; empty means the common stream of all lists. A Static page does
	// not update itself.
	Stream string
	Static bool
	Flash  string
	// Refresh is a page that the browser goes to at once; empty for none.
	Refresh string
	// Passkeys loads the script for passkeys.
	Passkeys bool
	// Tab is the visible tab of a page; empty shows all of them.
	Tab  string
	Body any

	// render fills in the fields below.
	Trouble      string // why no session can start
	Counts       store.PageState
	Seen         string // revision of the journal that the page shows, for its stream
	MadeAt       stamp
	Theme        string
	Back         string
	Version      string
	Environments []string
	CanLogOut    bool
	Access       access.Role // what the visitor may do
	CanRun       bool        // the visitor may start cycles
	NoNavigation bool        // no navigation: the visitor is not logged in
}

func loadPages(assets assetSet, clock ops.Clock) pageSet {
	snippets := snippets{sprite: assets.path("icons.svg")}
	shell := sync.OnceValue(func() *template.Template {
		return template.Must(template.New("shell").Funcs(template.FuncMap{
			"icon": snippets.icon, "badge": snippets.badge, "time": snippets.time, "figure": snippets.figure, "tier": snippets.tier,
			"asset": assets.path, "operation": func(path string) access.Operation { return access.OperationOf("POST", path) },
			"rail": rail, "field": field, "selecting": selecting, "servicePath": servicePath,
			"inc": func(i int) int { return i + 1 },
		}).Funcs(rowFuncs(clock, snippets)).ParseFS(templateFiles, "templates/layout.html", "templates/parts*.html"))
	})
	set := pageSet{}
	files, err := templateFiles.ReadDir("templates")
	if err != nil {
		panic("read embedded templates: " + err.Error()) // they are part of the program
	}
	for _, file := range files {
		name := strings.TrimSuffix(file.Name(), ".html")
		if name != "layout" && !strings.HasPrefix(name, "parts") {
			set[name] = sync.OnceValue(func() *template.Template {
				return template.Must(template.Must(shell().Clone()).ParseFS(templateFiles, "templates/"+file.Name()))
			})
		}
	}
	return set
}

// countsKey is the context key of the counters.
type countsKey struct{}

// withCounts reads the counters before a page is rendered, so that its stream reports what is written meanwhile.
func (s *server) withCounts(r *http.Request) *http.Request {
	if s.Store == nil || r.Method != http.MethodGet || strings.HasPrefix(r.URL.Path, "/assets/") {
		return r
	}
	counts, err := s.counters.read(r.Context(), 0)
	if err != nil {
		// A page without counters is better than no page.
		s.Logger.ErrorContext(r.Context(), "read page counters failed", "error", err)
		return r
	}
	return r.WithContext(context.WithValue(r.Context(), countsKey{}, counts))
}

func counts(r *http.Request) store.PageState {
	found, _ := r.Context().Value(countsKey{}).(store.PageState)
	return found
}

// piece renders one partial template of a page.
func (s *server) piece(name, part string, data any) (string, error) {
	var out strings.Builder
	err := s.pages[name]().ExecuteTemplate(&out, part, data)
	return out.String(), err
}

// renderPiece responds with one partial template of a page.
func (s *server) renderPiece(w http.ResponseWriter, r *http.Request, name, part string, data any) {
	html, err := s.piece(name, part, data)
	if err != nil {
		s.Logger.ErrorContext(r.Context(), "render partial page failed", "page", name, "piece", part, "error", err)
		http.Error(w, "The page could not be rendered. See the log of the supervisor.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if w.Header().Get("Cache-Control") == "" {
		w.Header().Set("Cache-Control", "no-cache")
	}
	_, _ = w.Write([]byte(html)) // the client may have disconnected
}

// render writes a complete page, or an error.
func (s *server) render(w http.ResponseWriter, r *http.Request, status int, name string, p page) {
	p.Theme = chosenTheme(r)
	p.Version = s.Version
	p.CanLogOut = s.loggedIn(r)
	p.Access, p.CanRun = caller(r).Role, caller(r).May(access.Run)
	p.NoNavigation = !p.CanLogOut && !caller(r).Bearer
	if !p.NoNavigation {
		if s.Trouble != nil { // it may name files
			p.Trouble = s.Trouble()
		}
		p.Environments = environmentNames(s.Environments)
		p.Counts = counts(r)
		p.Seen = s.counters.revision(p.Counts)
	}
	if p.Nav != "" {
		p.Nav = cmp.Or(railName(r.URL.Path), p.Nav)
	}
	p.MadeAt = moment{s.Clock()}.precise(s.Clock())
	p.Back = "/"
	if r.Method == http.MethodGet {
		p.Back = r.URL.RequestURI()
	}
	var out bytes.Buffer
	if err := s.pages[name]().ExecuteTemplate(&out, "layout", p); err != nil {
		s.Logger.ErrorContext(r.Context(), "render page failed", "page", name, "error", err)
		http.Error(w, "The page could not be rendered. See the log of the supervisor.", http.StatusInternalServerError)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Length", strconv.Itoa(out.Len()))
	if header.Get("Cache-Control") == "" {
		header.Set("Cache-Control", "no-cache")
	}
	w.WriteHeader(status)
	_, _ = w.Write(out.Bytes())
}
