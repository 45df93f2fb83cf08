data "proxmox_orphans" "all" {}

# What to run, and where: nothing is removed by reading this.
output "commands" {
  value = [for o in data.proxmox_orphans.all.orphans : "${o.node}: ${o.command}" if o.command != null]
}

output "unchecked" {
  value = data.proxmox_orphans.all.unchecked
}
