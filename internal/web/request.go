package web

import (
	"net/http"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"claudeops/internal/desk"
)

const listed = 25 // rows per page

// person is the name that actions from a page are recorded under.
func (s *server) person(r *http.Request) string { return caller(r).Name }

// by is the visitor of a page as the one who does something.
func by(r *http.Request) desk.Person { return desk.Person{Name: caller(r).Name, Door: desk.Page} }

// refused shows a form again with what is wrong with it, and reports whether something was. undone says that nothing happened.
func refused(err error, undone string, show func(problem string)) bool {
	text, wrong := desk.Problem(err)
	if wrong {
		first, size := utf8.DecodeRuneInString(text)
		show(string(unicode.ToUpper(first)) + plain(text[size:]) + ". " + undone)
	}
	return wrong
}

// rowID returns the id in the URL.
func rowID(r *http.Request) (int64, bool) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	return id, err == nil && id > 0
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
	text, _ := clip(strings.TrimSpace(plain(r.URL.Query().Get(name))), 200)
	return text
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

func (s *server) environmentChoices(value string) []choice {
	var out []choice
	for _, e := range s.Environments {
		out = append(out, choice{Value: e.Name, Word: e.Name})
	}
	return chosen(value, "All environments", out...)
}

// paged cuts a list that was read with one row more than a page, and links to the next page.
func paged[T any](r *http.Request, found []T, id func(T) int64) ([]T, pager) {
	if len(found) <= listed {
		return found, paging(r, 0)
	}
	return found[:listed], paging(r, id(found[listed-1]))
}
