package web

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"claudeops/internal/access"
	"claudeops/internal/api"
	"claudeops/internal/desk"
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
	Status int    // of the answer; 0: the page is as it should be
	To     string // another page that is shown instead; empty for none
	Flash  string
	// Refresh is a page that the browser goes to at once; empty for none.
	Refresh string
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
	CanStop      bool        // the visitor may stop everything
	NoNavigation bool        // no navigation: the visitor is not logged in
}

func loadPages(assets assetSet, clock ops.Clock, prose func(string) template.HTML) pageSet {
	shell := sync.OnceValue(func() *template.Template {
		return template.Must(template.New("shell").Funcs(template.FuncMap{
			"asset": assets.path, "operation": func(path string) access.Operation { return access.OperationOf("POST", path) },
			"rail": rail, "railPages": railPages, "field": field, "servicePath": servicePath,
			"inc": func(i int) int { return i + 1 },
		}).Funcs(rowFuncs(clock, prose)).ParseFS(templateFiles, "templates/layout.html", "templates/parts*.html"))
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
func (s *site) withCounts(r *http.Request) *http.Request {
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
func (s *site) piece(name, part string, data any) (string, error) {
	var out strings.Builder
	err := s.pages[name]().ExecuteTemplate(&out, part, data)
	return out.String(), err
}

// renderPiece responds with one partial template of a page.
func (s *site) renderPiece(w http.ResponseWriter, r *http.Request, name, part string, data any) {
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
func (s *site) render(w http.ResponseWriter, r *http.Request, status int, name string, p page) {
	p.Theme = chosenTheme(r)
	p.Version = s.Version
	p.CanLogOut = caller(r).Login
	p.Access, p.CanRun, p.CanStop = caller(r).Role, caller(r).May(access.Run), caller(r).May(access.StopAll)
	p.NoNavigation = !p.CanLogOut && !caller(r).Bearer
	if !p.NoNavigation {
		if s.Trouble != nil { // it may name files
			p.Trouble = s.Trouble()
		}
		p.Environments = api.Rows(s.Environments, func(e ops.Environment) string { return e.Name })
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

//go:embed assets
var assetFiles embed.FS

type asset struct {
	kind    string
	version string
	content []byte
}

// assetSet holds the static files. Their URLs carry a version, so browsers can cache them.
type assetSet map[string]asset

func loadAssets() assetSet {
	kinds := map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
	set := assetSet{}
	entries, err := assetFiles.ReadDir("assets")
	if err != nil {
		panic("read embedded assets: " + err.Error()) // they are part of the program
	}
	for _, entry := range entries {
		kind := kinds[path.Ext(entry.Name())]
		if kind == "" {
			continue // not served, for example VENDORED.md
		}
		content, err := assetFiles.ReadFile(path.Join("assets", entry.Name()))
		if err != nil {
			panic("read embedded asset: " + err.Error())
		}
		sum := sha256.Sum256(content)
		set[entry.Name()] = asset{
			kind:    kind,
			version: hex.EncodeToString(sum[:6]),
			content: content,
		}
	}
	return set
}

// path is the URL of a file.
func (a assetSet) path(name string) string { return "/assets/" + name + "?v=" + a[name].version }

func (a assetSet) serve(w http.ResponseWriter, r *http.Request) {
	file, found := a[r.PathValue("file")]
	if !found {
		http.Error(w, "no such file", http.StatusNotFound)
		return
	}
	file.write(w, r)
}

func (a assetSet) favicon(w http.ResponseWriter, r *http.Request) { a["favicon.svg"].write(w, r) }

func (f asset) write(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Type", f.kind)
	header.Set("ETag", `"`+f.version+`"`)
	if r.URL.Query().Get("v") == f.version {
		header.Set("Cache-Control", "public, max-age=31536000, immutable")
	} else {
		header.Set("Cache-Control", "no-cache")
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.content))
}

// page serves a page. What names it if it cannot be shown.
func (s *site) page(template, what string, read func(*http.Request) (page, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		p, err := read(r)
		s.show(w, r, template, what, p, err)
	}
}

// show answers with a page, or with why there is none.
func (s *site) show(w http.ResponseWriter, r *http.Request, template, what string, p page, err error) {
	switch {
	case err != nil:
		s.fail(w, r, what, err)
	case p.To != "":
		http.Redirect(w, r, p.To, http.StatusSeeOther)
	default:
		s.render(w, r, cmp.Or(p.Status, http.StatusOK), template, p)
	}
}

// without is a page that has a form, before anything was sent.
func without(read func(r *http.Request, problem string) (page, error)) func(*http.Request) (page, error) {
	return func(r *http.Request) (page, error) { return read(r, "") }
}

// does serves what a form sends: it does something and leads to a page.
func (s *site) does(what string, do func(*http.Request) (next string, err error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		next, err := do(r)
		s.show(w, r, "", what, page{To: next}, err)
	}
}

// form is does for a form that is shown again with what is wrong. undone says that nothing happened.
func (s *site) form(
	template, what, undone string, do func(*http.Request) (next string, err error), again func(r *http.Request, problem string) (page, error),
) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		next, err := do(r)
		refused(err, undone, func(problem string) { err = wrong{http.StatusUnprocessableEntity, problem} })
		p := page{To: next}
		var found wrong
		if errors.As(err, &found) {
			p, err = again(r, found.text)
			p.Status = found.status
		}
		s.show(w, r, template, what, p, err)
	}
}

// wrong is what is wrong with a form, and refusal why there is no page.
type (
	wrong struct {
		status int
		text   string
	}
	refusal wrong
)

func (e wrong) Error() string   { return e.text }
func (e refusal) Error() string { return e.text }

func noSuch(text string) error { return refusal{http.StatusNotFound, text} }

// noPage is the answer to an address that nobody has.
func noPage() error { return noSuch("No page at this address.") }

type errorView struct {
	Status int
	Title  string
	Detail string
	Again  string // the same URL, if a retry may help
	Copy   string // details for a bug report
}

func (s *site) errorPage(w http.ResponseWriter, r *http.Request, status int, detail string) {
	title := http.StatusText(status)
	switch status {
	case http.StatusNotFound:
		title = "Not found"
	case http.StatusInternalServerError:
		title = "Something went wrong"
	case http.StatusServiceUnavailable:
		title = "Not available"
	}
	view := errorView{Status: status, Title: title, Detail: detail}
	if r.Method == http.MethodGet && status >= http.StatusInternalServerError {
		view.Again = r.URL.RequestURI()
	}
	view.Copy = fmt.Sprintf("%d %s: %s\n%s %s\n%s", status, title, detail, r.Method, r.URL.Path, s.Clock().UTC().Format(time.RFC3339))
	s.render(w, r, status, "error", page{
		Title: title, Static: true,
		Body: view,
	})
}

// fail shows an error. Internal errors are logged and not shown.
func (s *site) fail(w http.ResponseWriter, r *http.Request, what string, err error) {
	if refused(err, "Nothing was changed.", func(problem string) { s.errorPage(w, r, http.StatusUnprocessableEntity, problem) }) {
		return
	}
	var no refusal
	switch {
	case errors.As(err, &no):
		s.errorPage(w, r, no.status, no.text)
	case errors.Is(err, ops.ErrNotFound):
		s.errorPage(w, r, http.StatusNotFound, "No such "+what+".")
	case errors.Is(err, ops.ErrConflict), errors.Is(err, ops.ErrSlotBusy):
		s.errorPage(w, r, http.StatusConflict, "Nothing was changed: "+err.Error()+".")
	case errors.Is(err, ops.ErrQueueFull):
		w.Header().Set("Retry-After", "60")
		s.errorPage(w, r, http.StatusTooManyRequests,
			"Nothing was changed: "+err.Error()+". Cancel some of them, or try again when they have run.")
	case errors.Is(err, context.Canceled):
		// The client has disconnected.
	case store.Unavailable(err):
		s.Logger.WarnContext(r.Context(), "the database cannot be used for a page", "what", what, "path", r.URL.Path, "error", err)
		w.Header().Set("Retry-After", "5")
		s.errorPage(w, r, http.StatusServiceUnavailable,
			"The database cannot be used for the moment, so the "+what+" could not be read or changed. Try again later.")
	default:
		s.Logger.ErrorContext(r.Context(), "page request failed", "what", what, "path", r.URL.Path, "error", err)
		s.errorPage(w, r, http.StatusInternalServerError,
			"The "+what+" could not be read or changed. See the log of the supervisor.")
	}
}

const (
	themeCookie   = "claudeops_theme"
	themeLifetime = 365 * 24 * 60 * 60 // seconds
)

// theme stores the chosen theme in a cookie, so that the first paint is already right.
func (s *site) theme(w http.ResponseWriter, r *http.Request) {
	cookie := http.Cookie{
		Name: themeCookie, Path: "/", MaxAge: themeLifetime,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: encrypted(r),
	}
	switch chosen := r.PostFormValue("theme"); chosen {
	case "light", "dark":
		cookie.Value = chosen
	default:
		cookie.MaxAge = -1 // follow the system
	}
	http.SetCookie(w, &cookie)
	http.Redirect(w, r, localPath(r.PostFormValue("back")), http.StatusSeeOther)
}

func chosenTheme(r *http.Request) string {
	cookie, err := r.Cookie(themeCookie)
	if err != nil || (cookie.Value != "light" && cookie.Value != "dark") {
		return "system"
	}
	return cookie.Value
}

// question is a button that opens a confirmation dialog with a form. The partial "confirm" shows both.
type question struct {
	ID     string // of the dialog; unique on its page
	Button string // the word on the button that opens it
	Icon   string // on that button; empty for none
	Style  string // class of that button: "", primary, plain or danger
	Title  string // what is asked
	Text   string // what confirming does; may be empty
	Action string // URL that the form is posted to
	Yes    string
	No     string
	Danger bool // confirming destroys something
	Hidden map[string]string
	Fields []input
}

// input is a labelled field of a form.
type input struct {
	Name     string
	Label    string
	Kind     string // text (default), area, number, select, or secret, which is never shown
	Value    string
	Hint     string // help text below the field
	Required bool
	Max      int // maximum length; 0 for no limit
	Choices  []choice
	Problem  string // what is wrong with the value
}

// Described are the ids of the texts that belong to a field.
func (i namedInput) Described() string {
	var ids []string
	if i.Problem != "" {
		ids = append(ids, i.ID+"-wrong")
	}
	if i.Hint != "" {
		ids = append(ids, i.ID+"-hint")
	}
	return strings.Join(ids, " ")
}

// namedInput is an input with its own id.
type namedInput struct {
	input
	ID string
}

// field gives an input an id that is unique as long as the prefix is.
func field(prefix string, in input) namedInput {
	return namedInput{input: in, ID: prefix + "-" + in.Name}
}

// choice is one entry of a filter.
type choice struct {
	Value, Word string
	Chosen      bool
}

// choose marks the current entry of a filter.
func choose(value string, choices ...choice) []choice {
	for i := range choices {
		choices[i].Chosen = choices[i].Value == value
	}
	return choices
}

// chosen returns the choices of a select; the first one means all.
func chosen(value, all string, choices ...choice) []choice {
	return choose(value, append([]choice{{Word: all}}, choices...)...)
}

// option is one of several views of a page, as a link.
type option struct {
	Word    string
	Path    string
	Count   int
	Current bool
}

const listed = 25 // rows per page

// person is the name that actions from a page are recorded under.
func (s *site) person(r *http.Request) string { return caller(r).Name }

// by is the visitor of a page as the one who does something.
func by(r *http.Request) desk.Person { return desk.Person{Name: caller(r).Name, Door: desk.Page} }

// refused shows a form again with what is wrong with it, and reports whether something was. undone says that nothing happened.
func refused(err error, undone string, show func(problem string)) bool {
	text, wrong := desk.Problem(err)
	if wrong {
		show(ops.Capital(plain(text)) + ". " + undone)
	}
	return wrong
}

// rowID returns the id in the URL, or 0, which no row has.
func rowID(r *http.Request) int64 {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil {
		return 0
	}
	return id
}

// cursor returns where a list continues: the last id of the previous page.
func cursor(r *http.Request) (int64, bool) {
	text := r.URL.Query().Get("cursor")
	if text == "" {
		return 0, true
	}
	id, err := strconv.ParseInt(text, 10, 64)
	return id, err == nil && id > 0
}

// reason returns the reason field of a form.
func reason(r *http.Request) string { return typed(r, "reason") }

// typed returns a field of a form as a person typed it.
func typed(r *http.Request, name string) string {
	return strings.TrimSpace(plain(r.PostFormValue(name)))
}

// queried returns a field of a filter form.
func queried(r *http.Request, name string) string {
	return ops.Start(strings.TrimSpace(plain(r.URL.Query().Get(name))), 200)
}

// pager holds the links between the pages of a list.
type pager struct {
	Paged  bool
	Newest string
	Older  string
}

func paging(r *http.Request, older int64) pager {
	query := r.URL.Query()
	p := pager{Paged: query.Get("cursor") != ""}
	at := *r.URL
	query.Del("cursor")
	at.RawQuery = query.Encode()
	p.Newest = at.RequestURI()
	if older > 0 {
		query.Set("cursor", strconv.FormatInt(older, 10))
		at.RawQuery = query.Encode()
		p.Older = at.RequestURI()
	}
	return p
}

// with returns the URL of the page with one query field changed.
func with(r *http.Request, name, value string) string {
	query := r.URL.Query()
	query.Del("cursor")
	if value == "" {
		query.Del(name)
	} else {
		query.Set(name, value)
	}
	at := *r.URL
	at.RawQuery = query.Encode()
	return at.RequestURI()
}

func (s *site) environmentChoices(value string) []choice {
	return chosen(value, "All environments", api.Rows(s.Environments, environmentChoice)...)
}

func environmentChoice(e ops.Environment) choice { return choice{Value: e.Name, Word: e.Name} }

// paged cuts a list that was read with one row more than a page, and links to the next page.
func paged[T any](r *http.Request, found []T, id func(T) int64) ([]T, pager) {
	if len(found) <= listed {
		return found, paging(r, 0)
	}
	return found[:listed], paging(r, id(found[listed-1]))
}
