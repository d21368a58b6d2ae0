package store

import (
	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

const selectLowered = `SELECT environment, service, level, changed_by, reason, changed_at FROM trust WHERE environment = ? ORDER BY service`

func scanLowered(r db.Row) (ops.Lowered, error) {
	var l ops.Lowered
	err := r.Scan(&l.Environment, &l.Service, &l.Level, &l.By, &l.Reason, db.ToTime(&l.At))
	return l, err
}
