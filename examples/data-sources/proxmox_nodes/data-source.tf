data "proxmox_nodes" "all" {}

output "nodes" {
  value = data.proxmox_nodes.all.nodes
}
