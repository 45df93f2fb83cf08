output "gigabytes" {
  value = provider::proxmox::parse_size("1.5T").gib # 1536
}
