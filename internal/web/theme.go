package web

import (
	"net/http"
)

const (
	themeCookie   = "claudeops_theme"
	themeLifetime = 365 * 24 * 60 * 60 // seconds
)

// theme stores the chosen theme in a cookie, so that the first paint is already right.
func (s *server) theme(w http.ResponseWriter, r *http.Request) {
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
