package web

import (
	"bytes"
	"embed"
	"html/template"
	"net/http"
	"strconv"
)

//go:embed templates
var templateFiles embed.FS

// pageSet holds one parsed template per page.
type pageSet map[string]*template.Template

// page is what the shell around every page shows.
type page struct {
	Title string
	Nav   string // the entry of the navigation that is marked
	// Refresh is the address to load again shortly, while something on the page is running; empty otherwise.
	Refresh string
	Flash   string
	Body    any

	// What follows is filled in by render.
	Theme        string
	Back         string
	Version      string
	Environments []string
	CanLogOut    bool
	Bare         bool // no navigation: the visitor is not logged in
}

func loadPages(assets assetSet) pageSet {
	shell := template.Must(template.New("shell").Funcs(template.FuncMap{
		"asset": assets.path,
	}).ParseFS(templateFiles, "templates/layout.html", "templates/parts.html"))
	set := pageSet{}
	for _, name := range []string{"overview", "sessions", "session", "login", "error"} {
		set[name] = template.Must(template.Must(shell.Clone()).ParseFS(templateFiles, "templates/"+name+".html"))
	}
	return set
}

// render writes a page, whole or not at all.
func (s *server) render(w http.ResponseWriter, r *http.Request, status int, name string, p page) {
	p.Theme = chosenTheme(r)
	p.Version = s.Version
	p.Environments = environmentNames(s.Environments)
	p.CanLogOut = s.loggedIn(r)
	p.Bare = s.logins != nil && !p.CanLogOut && !s.logins.bearer(r)
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
