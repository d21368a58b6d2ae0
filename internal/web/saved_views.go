package web

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

const (
	viewsPath   = "/cycles/views"
	viewsCookie = "claudeops_views"
	// A browser sends its cookies with every request, so their size is limited.
	maxViews     = 12
	maxViewName  = 40
	maxViewQuery = 300 // bytes of one view
)

// savedView is a named filter of the list.
type savedView struct {
	Name    string `json:"n"`
	Query   string `json:"q"`
	Current bool   `json:"-"`
}

// Path is the URL of the filtered list.
func (v savedView) Path() string { return cyclesURL + "?" + v.Query }

// savedViews reads the saved views of the visitor from a cookie.
func savedViews(r *http.Request) []savedView {
	cookie, err := r.Cookie(viewsCookie)
	if err != nil {
		return nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	var found, out []savedView
	if err != nil || json.Unmarshal(raw, &found) != nil {
		return nil
	}
	for _, v := range found {
		if v, ok := usableView(v.Name, v.Query); ok && len(out) < maxViews {
			out = append(out, v)
		}
	}
	return out
}

// usableView validates a view sent by a browser. Only filters of the list are kept.
func usableView(name, query string) (savedView, bool) {
	name = strings.TrimSpace(firstLine(plain(name), maxViewName))
	fields, err := url.ParseQuery(query)
	if err != nil || name == "" {
		return savedView{}, false
	}
	_, query, _ = strings.Cut(readCyclesQuery(fields).path(cyclesURL, 0), "?")
	return savedView{Name: name, Query: query}, query != "" && len(query) <= maxViewQuery
}

// saveView saves the current filters under a name, and replaces a view of the same name.
func (s *server) saveView(w http.ResponseWriter, r *http.Request) {
	v, ok := usableView(r.PostFormValue("name"), r.PostFormValue("query"))
	if !ok {
		s.errorPage(w, r, http.StatusUnprocessableEntity, "A view needs a name and at least one filter. Long filters cannot be saved.")
		return
	}
	all := slices.DeleteFunc(savedViews(r), func(old savedView) bool { return old.Name == v.Name })
	if len(all) >= maxViews {
		s.errorPage(w, r, http.StatusUnprocessableEntity, "You have 12 saved views already. Remove one first.")
		return
	}
	setViews(w, r, append(all, v))
	http.Redirect(w, r, v.Path(), http.StatusSeeOther)
}

// removeView removes a saved view.
func (s *server) removeView(w http.ResponseWriter, r *http.Request) {
	name := r.PostFormValue("name")
	setViews(w, r, slices.DeleteFunc(savedViews(r), func(v savedView) bool { return v.Name == name }))
	http.Redirect(w, r, cyclesURL, http.StatusSeeOther)
}

func setViews(w http.ResponseWriter, r *http.Request, all []savedView) {
	cookie := http.Cookie{
		Name: viewsCookie, Path: "/", MaxAge: themeLifetime, HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: encrypted(r),
	}
	raw, err := json.Marshal(all)
	if cookie.Value = base64.RawURLEncoding.EncodeToString(raw); err != nil || len(all) == 0 {
		cookie.Value, cookie.MaxAge = "", -1
	}
	http.SetCookie(w, &cookie)
}
