package guest

import (
	"context"
	"net/url"
	"strings"
)

// Restore names a backup that a VM is made of.
type Restore struct {
	Archive string // "local:backup/vzdump-qemu-100-….vma.zst", "pbs:backup/vm/100/…"
	Storage string // for all disks; "": those that they were on
	BWLimit *int64 // KiB/s
}

// ArchiveConfig is the configuration in a backup of a VM, less what does not come back with it. It is read once for all plans and
// creates that want it within some seconds: a backup never changes.
func (s *Guests) ArchiveConfig(ctx context.Context, node, archive string) (map[string]string, error) {
	return s.sources.Get(ctx, s.clock, node+" "+archive, func(ctx context.Context) (map[string]string, error) {
		text, err := s.api.ArchiveConfig(ctx, node, archive)
		return parseArchive(text), err
	})
}

// parseArchive reads the text of a configuration as PVE keeps it (qemu-server QemuServer.pm, parse_vm_config): comments are the
// description, and what comes after the first section belongs to snapshots. Drives with backup=0 are not in the archive, and neither are
// locks, unused disks and the snapshot that the VM stood on (restore_update_config_line).
func parseArchive(text string) map[string]string {
	config := map[string]string{}
	var description []string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \r\n")
		if strings.HasPrefix(line, "[") {
			break
		}
		if strings.HasPrefix(line, "#qmdump#") || strings.HasPrefix(line, "#vzdump#") {
			continue
		}
		if comment, ok := strings.CutPrefix(line, "#"); ok {
			if plain, err := url.PathUnescape(comment); err == nil {
				comment = plain
			}
			description = append(description, comment)
			continue
		}
		option, value, ok := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		dropped := option == "lock" || option == "parent" || strings.HasPrefix(option, "unused") || strings.Contains(value+",", ",backup=0,")
		if ok && !dropped {
			config[option] = value
		}
	}
	if len(description) > 0 {
		config["description"] = strings.Join(description, "\n")
	}
	return config
}
