data "proxmox_version" "server" {}

output "version" {
  value = data.proxmox_version.server.version
}
