package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/stdlib"
)

// takingLong runs fn in one transaction that may take as long as it takes.
func (s *Store) takingLong(ctx context.Context, readOnly bool, fn func(tx querier) error) error {
	if !readOnly && s.writer == nil {
		return errReadOnly
	}
	p, server := s.dialect.(*postgres)
	if server {
		return p.takingLong(ctx, readOnly, fn)
	}
	if readOnly {
		return s.read(ctx, fn)
	}
	return s.write(ctx, "copy", fn)
}

// unhurried is a connection of its own: on all others what takes long counts as something whose host has died.
func (p *postgres) unhurried() *sql.DB {
	config := p.config.ConnConfig.Copy()
	for _, limit := range []string{"lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout"} {
		config.RuntimeParams[limit] = "0"
	}
	return stdlib.OpenDB(*config)
}

func (p *postgres) takingLong(ctx context.Context, readOnly bool, fn func(tx querier) error) (err error) {
	db := p.unhurried()
	defer func() { err = errors.Join(err, db.Close()) }()
	opened, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: readOnly})
	if err != nil {
		return err
	}
	tx := transaction{querier: boundTx{opened, ctx, p.texts.bind}, commit: opened.Commit, rollBack: opened.Rollback}
	if !readOnly {
		if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock(?)`, int64(writeLock)); err != nil {
			return rollBack(tx, err)
		}
	}
	if err := fn(tx.querier); err != nil {
		return rollBack(tx, err)
	}
	return tx.commit()
}

// lastNumber is the last number that was given to a row of a table.
func (s *Store) lastNumber(ctx context.Context, q querier, table string) (int64, error) {
	query, name := `SELECT COALESCE(MAX(seq), 0) FROM sqlite_sequence WHERE name = ?`, table
	if _, server := s.dialect.(*postgres); server {
		query, name = `SELECT COALESCE(MAX(last_value), 0) FROM pg_sequences WHERE schemaname = current_schema() AND sequencename = ?`, table+"_id_seq"
	}
	return one(ctx, q, scanInt, query, name)
}

// goOnAfter lets a table give the number after the last one to its next row.
func (s *Store) goOnAfter(ctx context.Context, q querier, table string, last int64) error {
	if last == 0 {
		return nil
	}
	if _, server := s.dialect.(*postgres); server {
		_, err := one(ctx, q, scanInt, `SELECT setval(pg_get_serial_sequence(?, 'id'), ?)`, table, last)
		return err
	}
	if _, err := q.ExecContext(ctx, `DELETE FROM sqlite_sequence WHERE name = ?`, table); err != nil {
		return err
	}
	if _, err := q.ExecContext(ctx, `INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)`, table, last); err != nil {
		return fmt.Errorf("go on counting: %w", err)
	}
	return nil
}
