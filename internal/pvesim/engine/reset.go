package engine

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
)

// Snapshot is everything that can leak, as comparable JSON.
func (e *Engine) Snapshot() []byte {
	e.World.Lock()
	defer e.World.Unlock()
	return e.World.Snapshot()
}

// Load puts a snapshot's state in the place of the present one. Running workers die first, without clean-up.
func (e *Engine) Load(snapshot []byte) error {
	e.Enter()
	defer e.Leave()
	e.World.Lock()
	defer e.World.Unlock()
	return e.load(snapshot)
}

func (e *Engine) load(snapshot []byte) error {
	e.killWorkers()
	e.agenda = nil
	clear(e.Locks)
	if err := e.World.Load(snapshot); err != nil {
		return err
	}
	e.Stats.Sample(e.World)
	return nil
}

// killWorkers ends all workers where they stand, and all waiting, whatever the clock says.
func (e *Engine) killWorkers() {
	e.over()
	e.epoch, e.over = context.WithCancel(e.Ctx)
	for len(e.Workers) > 0 {
		for _, w := range e.Workers {
			w.Kill = true
			if w.ThirdParty {
				e.EndThirdParty(w.Task, "unexpected status")
			}
		}
		for _, w := range e.Workers {
			e.World.Unlock()
			<-w.ended
			e.World.Lock()
			break // the others may have ended meanwhile
		}
	}
}

// largeSnapshot is from how many bytes on a snapshot is kept packed: that of ten thousand guests is as large as the
// guests themselves.
const largeSnapshot = 1 << 20

func packed(snapshot []byte) []byte {
	if len(snapshot) < largeSnapshot {
		return snapshot
	}
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed) // a level that exists
	_, _ = z.Write(snapshot)                        // into memory
	_ = z.Close()
	return b.Bytes()
}

// unpacked undoes packed. A snapshot begins with a brace, as nothing packed does.
func unpacked(b []byte) ([]byte, error) {
	if len(b) > 0 && b[0] == '{' {
		return b, nil
	}
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

// Reset goes back to the state the server started with, forgets tasks and operations and removes all faults.
func (e *Engine) Reset() error {
	e.Enter()
	defer e.Leave()
	e.World.Lock()
	defer e.World.Unlock()
	e.Faults().Clear()
	_ = e.ThirdParties().Put(nil) // no order is an invalid one
	initial, err := unpacked(e.initial)
	if err != nil {
		return err
	}
	if err := e.load(initial); err != nil {
		return err
	}
	e.restore()
	clear(e.busy)
	e.ops = nil
	return nil
}
