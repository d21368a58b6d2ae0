package web

import "net/http"

// servicePage shows everything about one service.
func (s *server) servicePage(w http.ResponseWriter, r *http.Request) {
	s.errorPage(w, r, http.StatusNotFound, "No such service.")
}
