package daemon

// The database is looked through beside the work after an unclean stop. Holding everything until it is done would keep a large
// installation blind for minutes; narrowing the policy would change decisions that are recorded. So only a session that may change
// something waits, where it would start: sound.hold.

// What is known of the database.
const (
	databaseChecking = "checking"
	databaseSound    = "sound"
	databaseDamaged  = "damaged"
)

// state is what is known of the database.
func (s *sound) state() string {
	if s.damage.Load() != nil {
		return databaseDamaged
	}
	select {
	case <-s.checked:
		return databaseSound
	default:
		return databaseChecking
	}
}

// trouble is what every page shows: why nothing is started, or what waits.
func (h *Host) trouble() string {
	if text := errorText(h.sound.trouble()); text != "" {
		return text
	}
	if err := h.may(); err != nil {
		return err.Error()
	}
	if h.draining.Load() {
		return "this host is being drained: it takes no new cycles, and others, or its next start, continue what it gives away"
	}
	if h.sound.state() == databaseChecking {
		return "the database was not closed in good order and is being looked through; sessions that may change something wait for that"
	}
	return ""
}

// unfit says why this host cannot do its work at all.
func (h *Host) unfit() error {
	if found := h.sound.damage.Load(); found != nil {
		return *found
	}
	return nil
}
