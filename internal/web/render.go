package web

import (
	"bytes"
	"context"
	"embed"
	"html/template"
	"net/http"
	"strconv"
	"strings"

	"claudeops/internal/store"
)

//go:embed templates
var templateFiles embed.FS

// pageSet holds one parsed template per page.
type pageSet map[string]*template.Template

// page is what the shell around every page shows.
type page struct {
	Title string
	Nav   string // the entry of the navigation that is marked
	// Stream is the address of the events this page follows; empty means those of all lists. A page that shall not change
	// under its reader's hands is Still.
	Stream string
	Still  bool
	Flash  string
	// Tab is the part of a page that is shown; empty shows all of them.
	Tab  string
	Body any

	// What follows is filled in by render.
	Trouble      string // why no session is started
	Counts       store.PageState
	Seen         string // what of the journal the page shows, for its stream
	MadeAt       stamp
	Theme        string
	Back         string
	Version      string
	Environments []string
	CanLogOut    bool
	ReadOnly     bool // the visitor may only look
	Bare         bool // no navigation: the visitor is not logged in
}

func loadPages(assets assetSet) pageSet {
	marks := marks{sprite: assets.path("icons.svg")}
	shell := template.Must(template.New("shell").Funcs(template.FuncMap{
		"icon": marks.icon, "badge": marks.badge, "time": marks.time, "figure": marks.figure, "tier": marks.tier,
		"asset": assets.path, "link": link, "field": field, "selecting": selecting,
	}).ParseFS(templateFiles, "templates/layout.html", "templates/parts*.html"))
	set := pageSet{}
	files, err := templateFiles.ReadDir("templates")
	if err != nil {
		panic("read embedded templates: " + err.Error()) // they are part of the program
	}
	for _, file := range files {
		name := strings.TrimSuffix(file.Name(), ".html")
		if name != "layout" && !strings.HasPrefix(name, "parts") {
			set[name] = template.Must(template.Must(shell.Clone()).ParseFS(templateFiles, "templates/"+file.Name()))
		}
	}
	return set
}

// countsKey finds the counters in the context of a request.
type countsKey struct{}

// withCounts reads the counters before a page is made: what is written while it is made is then told by its stream.
func (s *server) withCounts(r *http.Request) *http.Request {
	if s.Store == nil || r.Method != http.MethodGet || strings.HasPrefix(r.URL.Path, "/assets/") {
		return r
	}
	counts, err := s.pulse.look(r.Context(), 0)
	if err != nil {
		// A page is shown without them rather than not at all.
		s.Logger.ErrorContext(r.Context(), "cannot read the counters of the pages", "error", err)
		return r
	}
	return r.WithContext(context.WithValue(r.Context(), countsKey{}, counts))
}

func counts(r *http.Request) store.PageState {
	found, _ := r.Context().Value(countsKey{}).(store.PageState)
	return found
}

// piece renders one template of a page.
func (s *server) piece(name, part string, data any) (string, error) {
	var out strings.Builder
	err := s.pages[name].ExecuteTemplate(&out, part, data)
	return out.String(), err
}

// renderPiece answers with one template of a page.
func (s *server) renderPiece(w http.ResponseWriter, r *http.Request, name, part string, data any) {
	html, err := s.piece(name, part, data)
	if err != nil {
		s.Logger.ErrorContext(r.Context(), "cannot render a piece of a page", "page", name, "piece", part, "error", err)
		http.Error(w, "The page could not be made. The supervisor's log says why.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if w.Header().Get("Cache-Control") == "" {
		w.Header().Set("Cache-Control", "no-cache")
	}
	_, _ = w.Write([]byte(html)) // the visitor may have gone
}

// render writes a page, whole or not at all.
func (s *server) render(w http.ResponseWriter, r *http.Request, status int, name string, p page) {
	p.Theme = chosenTheme(r)
	p.Version = s.Version
	p.Environments = environmentNames(s.Environments)
	p.CanLogOut = s.loggedIn(r)
	p.ReadOnly = caller(r).ReadOnly
	if s.Trouble != nil {
		p.Trouble = s.Trouble()
	}
	p.Bare = s.logins != nil && !p.CanLogOut && !s.logins.bearer(r)
	if !p.Bare {
		p.Counts = counts(r)
		p.Seen = mark(p.Counts)
	}
	p.MadeAt = moment{s.Clock()}.precise(s.Clock())
	p.Back = "/"
	if r.Method == http.MethodGet {
		p.Back = r.URL.RequestURI()
	}
	var out bytes.Buffer
	if err := s.pages[name].ExecuteTemplate(&out, "layout", p); err != nil {
		s.Logger.ErrorContext(r.Context(), "cannot render a page", "page", name, "error", err)
		http.Error(w, "The page could not be made. The supervisor's log says why.", http.StatusInternalServerError)
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
